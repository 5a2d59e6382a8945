"""Tools that are known by their bytes are read and written as they would be alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import structs

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.caches.read_cache import ReadCache
from segue.dialects.caches.tool_cache import GivenTools, KnownTools, ToolCache, encode_once
from segue.dialects.card import UNKNOWN, ModelCard
from segue.dialects.plan import plan
from segue.dialects.registry import DIALECTS
from segue.transcript.render import render
from segue.transcript.repairs import Repair
from strategies.targets import TARGETS

WIRES = ("openai_chat", "kimi", "openai_responses", "anthropic", "gemini", "mistral", "ollama")
TOOLS = (
    ToolSpec("read", "Reads.", {"type": "object", "properties": {"tools": {"type": "array"}}}),
    ToolSpec("näme of a tool", "Wird umbenannt.", {"type": "object", "properties": {}}, strict=True),
    ToolSpec("wide", "", {"anyOf": [{"type": "object"}, {"type": "string"}]}),
)
SAID = Conversation(system="Be brief.").append(Message("user", (Text('Has "tools": [1] in it.'),)))


def written(name: str) -> bytes:
    transcript = render(SAID, None, TARGETS[name])
    return DIALECTS[name].encode_request(transcript, TOOLS, Options(model="m"), UNKNOWN).body


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " :\t")])
def test_known_tools_are_read_as_new_ones(name: str, separators: tuple[str, str]) -> None:
    body = json.dumps(json.loads(written(name)), separators=separators).encode()
    cache = ReadCache(1_000_000, least=0)
    first, second = (cache.read(DIALECTS[name], body) for _ in range(2))
    assert type(second.tools) is KnownTools
    assert second.tools is first.tools
    alone = DIALECTS[name].decode_request(msgspec.json.decode(body))
    assert (second.tools, second.options, second.fields) == (alone.tools, alone.options, json.loads(body))


@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_known_tools_are_written_as_new_ones(source: str, target: str) -> None:
    cache = ReadCache(1_000_000, least=0)
    read = cache.read(DIALECTS[source], written(source))

    def planned(tools: tuple[ToolSpec, ...]) -> tuple[object, ...]:
        made = plan(
            SAID, None, target=TARGETS[target].target, card=UNKNOWN, tools=tools, options=Options(model="m")
        )
        return made.body, made.repairs, made.names

    alone = planned(tuple(read.tools))
    assert [planned(read.tools) for _ in range(3)] == [alone] * 3


OTHERS = tuple(
    Extra(wire, fields={"response_format": shape})
    for wire in ("openai_chat", "mistral")
    for shape in ({"type": "json_object"}, {"type": "text"})
)
OPTIONS = (
    Options(model="m"),
    Options(model="m", temperature=1, stream=True),
    Options(model="m", temperature=1.0, stream=True),
    Options(model="n", max_tokens=9_000, tool_choice="required"),
    Options(model="m", max_tokens=9_000, effort="high"),
    Options(model="m", max_tokens=9_000, thinking_budget=2_000),
    Options(model="m", extra={"thinking": {"type": "enabled", "budget_tokens": 2_000}}),
    *(Options(model="m", own=own) for own in OTHERS),
)
CALLED = SAID.append(Message("model", (ToolCall("", "read", {}),))).append(
    Message("tool", (ToolResult("", "read", "Read.", complete=True),))
)


@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("card", [UNKNOWN, structs.replace(UNKNOWN, thinking="manual")])
def test_known_tools_are_written_with_the_settings_of_each_request(target: str, card: ModelCard) -> None:
    known = ReadCache(1_000_000, least=0).read(DIALECTS[target], written(target)).tools

    def planned(said: Conversation, tools: tuple[ToolSpec, ...], options: Options) -> tuple[object, ...]:
        made = plan(said, None, target=TARGETS[target].target, card=card, tools=tools, options=options)
        return made.body, made.repairs

    for said in (SAID, CALLED, SAID):
        for options in (*OPTIONS, *reversed(OPTIONS)):
            assert planned(said, known, options) == planned(said, tuple(known), options)


def test_known_tools_are_counted_as_a_part_of_the_body() -> None:
    cache = ToolCache(1_000_000, 0)
    body = msgspec.json.encode({"tools": [{"cache_control": 1}] * 3, "messages": [{"cache_control": 2}]})
    for _ in range(3):
        assert cache.parse(body).count(b'"cache_control"') == 4


def test_marks_on_known_tools_count_among_those_of_the_request() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    tools = [{"name": f"tool{number}", "input_schema": {"type": "object"}, **mark} for number in range(3)]
    content = [{"type": "text", "text": "Hello", **mark} for _ in range(3)]
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "tools": tools}
    alone = DIALECTS["anthropic"].decode_request(body)
    assert [repair.path for repair in alone.repairs] == ["tools[0]", "tools[1]"]
    cache = ReadCache(1_000_000, least=0)
    for _ in range(3):
        read = cache.read(DIALECTS["anthropic"], msgspec.json.encode(body))
        assert read.repairs == alone.repairs


FIRST: list[Any] = [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"tools": FIRST}], "tools": [{"name": "c"}]},
        {"messages": [{"tools": FIRST}]},
        {"metadata": {"tools": FIRST}, "tools": FIRST},
        {"text": '"tools":[{"name":"a"},{"name":"b"}]', "tools": FIRST},
        {"tools": [*FIRST, {"name": "c"}]},
        {"tools": None, "messages": [{"tools": FIRST}]},
    ],
)
def test_tools_are_found_only_where_they_are_a_field_of_the_request(body: dict[str, Any]) -> None:
    cache = ToolCache(100_000, least=0)
    cache.parse(msgspec.json.encode({"tools": FIRST}))
    parsed = cache.parse(msgspec.json.encode(body))
    assert parsed.fields == body


def test_the_last_of_two_fields_of_the_same_name_counts() -> None:
    cache = ToolCache(100_000, least=0)
    tools = msgspec.json.encode(FIRST)
    cache.parse(b'{"tools":%b}' % tools)
    assert cache.parse(b'{"tools":%b,"tools":[]}' % tools).fields == {"tools": []}
    assert cache.parse(b'{"tools":[],"tools":%b}' % tools).fields == {"tools": FIRST}


@pytest.mark.parametrize("broken", [b'{"tools":%b', b'{"tools":%b]}', b'{"tools":%b "a":1}', b'"tools":%b'])
def test_what_is_no_json_stays_none(broken: bytes) -> None:
    cache = ToolCache(100_000, least=0)
    tools = msgspec.json.encode(FIRST)
    cache.parse(b'{"tools":%b}' % tools)
    with pytest.raises(msgspec.DecodeError):
        cache.parse(broken % tools)


def test_tools_that_were_not_used_longest_are_dropped_first() -> None:
    cache = ToolCache(1_000, least=0)
    bodies = [msgspec.json.encode({"tools": [{"name": f"tool number {number}"}]}) for number in range(4)]
    for body in (*bodies[:3], bodies[0], bodies[3]):
        cache.parse(body)
        assert cache.held <= 1_000
    kept = [type(cache.parse(body).fields["tools"]) is GivenTools for body in bodies]
    assert kept == [True] * 4
    first = cache.parse(bodies[3]).fields["tools"]
    assert cache.parse(bodies[3]).fields["tools"] is first


def test_repairs_of_known_tools_are_noted_for_every_request() -> None:
    tools = KnownTools(TOOLS)

    def noted() -> list[Repair]:
        repairs = [Repair("option_not_sent", "x", "before")]

        def encode() -> list[int]:
            repairs.append(Repair("schema_reduced", "x", "tools[0]"))
            return [1]

        assert encode_once(tools, "x", repairs, encode) == [1]
        return repairs

    assert noted() == noted()
    assert len(noted()) == 2

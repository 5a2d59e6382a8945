"""A request of which the beginning is known is read as it would be read alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.caches.read_cache import PartialRequestError, ReadCache, ReadRequest
from segue.dialects.card import UNKNOWN
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from segue.transcript.adopt import adopt
from segue.transcript.fast import fast_paths
from segue.transcript.render import render
from strategies.histories import messages, whole_conversations
from strategies.targets import TARGETS

WIRES = ("openai_chat", "kimi", "openai_responses", "anthropic", "gemini", "mistral", "ollama", "converse")
TOOLS = (ToolSpec("read", "Reads.", {"type": "object", "properties": {"messages": {"type": "array"}}}),)


def alone(name: str, body: bytes) -> tuple[object, ...]:
    dialect = DIALECTS[name]
    decoded = dialect.decode_request(msgspec.json.decode(body))
    adoption = adopt(decoded.messages, system=decoded.system, dialect=name)
    return adoption.conversation, adoption.repairs, decoded.tools, decoded.options


def parts(read: ReadRequest) -> tuple[object, ...]:
    return read.conversation, read.repairs, read.tools, read.options


def written(name: str, conversation: Conversation) -> bytes:
    transcript = render(conversation, None, TARGETS[name])
    return DIALECTS[name].encode_request(transcript, TOOLS, Options(model="m"), UNKNOWN).body


def example(exchanges: int, system: str = "Be brief.") -> Conversation:
    made = Conversation(system=system).append(Message("user", (Text("Hi"),)))
    for number in range(exchanges):
        call = ToolCall(f"c{number}", "read", {"n": number}, native_id=f"call_{number}")
        made = made.append(
            Message("model", (Text(f"Reading {number}."), call)),
            Message("tool", (ToolResult(call.id, "read", f"line {number}"),)),
        )
    return made


@pytest.mark.parametrize("name", WIRES)
@given(data=st.data())
def test_a_request_is_read_alike_whatever_was_read_before_it(name: str, data: st.DataObject) -> None:
    cache = ReadCache(1_000_000, least=0)
    conversation = data.draw(whole_conversations(None)).conversation
    for message in (None, *data.draw(st.lists(messages(TARGETS[name].target), max_size=3))):
        if message is not None:
            conversation = conversation.append(message)
        body = written(name, conversation)
        assert parts(cache.read(DIALECTS[name], body)) == alone(name, body)


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " :\t")])
def test_of_a_conversation_that_grows_only_the_end_is_read(name: str, separators: tuple[str, str]) -> None:
    cache = ReadCache(1_000_000, least=0)
    known = []
    for exchanges in range(1, 40, 3):
        fields = json.loads(written(name, example(exchanges)))
        body = json.dumps(fields, separators=separators).encode()
        read = cache.read(DIALECTS[name], body)
        assert parts(read) == alone(name, body)
        known.append(len(read.conversation.messages) - read.known)
    assert max(known[2:]) < 30


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " :\t")])
def test_a_long_conversation_is_known_after_its_first_request(name: str, separators: tuple[str, str]) -> None:
    cache = ReadCache(1_000_000, least=0)
    for exchanges in (70, 71):
        fields = json.loads(written(name, example(exchanges)))
        body = json.dumps(fields, separators=separators).encode()
        read = cache.read(DIALECTS[name], body)
        assert parts(read) == alone(name, body)
    assert len(read.conversation.messages) - read.known <= 6


@pytest.mark.parametrize("name", ["anthropic", "openai_chat", "gemini"])
def test_of_each_request_that_follows_another_only_the_last_exchanges_are_read(name: str) -> None:
    cache = ReadCache(1_000_000, least=0)
    dialect, field = DIALECTS[name], DIALECTS[name].messages_field
    for exchanges in range(4, 50):
        fields = json.loads(written(name, example(exchanges)))
        if name == "anthropic":  # such a mark moves with the end
            fields[field][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        body = json.dumps(fields, separators=(", ", ":")).encode()
        read = cache.read(dialect, body)
        assert parts(read) == alone(name, body)
        if exchanges > 4:
            assert read.known >= len(read.conversation.messages) - 7
    assert cache.budget.held < 5 * len(body)


@pytest.mark.parametrize("name", WIRES)
def test_an_earlier_message_that_changed_is_read_again(name: str) -> None:
    cache = ReadCache(1_000_000, least=0)
    cache.read(DIALECTS[name], written(name, example(9)))
    body = written(name, example(10)).replace(b"line 2", b"line X")
    read = cache.read(DIALECTS[name], body)
    changed = next(at for at, message in enumerate(read.conversation.messages) if "line X" in str(message))
    assert read.known < changed
    assert parts(read) == alone(name, body)


@pytest.mark.parametrize(
    "changed",
    [{"tools": []}, {"temperature": 0.5}, {"model": "other"}, {"system": "Be long."}, {"stream": True}],
)
def test_settings_are_read_as_they_are_now(changed: dict[str, Any]) -> None:
    cache = ReadCache(1_000_000, least=0)
    cache.read(DIALECTS["anthropic"], written("anthropic", example(9)))
    body = json.dumps({**json.loads(written("anthropic", example(10))), **changed}).encode()
    assert parts(cache.read(DIALECTS["anthropic"], body)) == alone("anthropic", body)


def test_of_two_lists_of_messages_the_last_one_counts_also_behind_known_bytes() -> None:
    cache = ReadCache(1_000_000, least=0)
    cache.read(DIALECTS["anthropic"], written("anthropic", example(9)))
    body = written("anthropic", example(9))
    reply = b'{"role":"assistant","content":"Another one."},{"role":"user","content":"Go on."}'
    twice = body[:-1] + b',"messages":[' + reply + b"]}"
    assert parts(cache.read(DIALECTS["anthropic"], twice)) == alone("anthropic", twice)


def test_a_mark_for_the_cache_may_move_along_with_the_end() -> None:
    cache = ReadCache(1_000_000, least=0)
    for exchanges in (8, 9):
        fields = json.loads(written("anthropic", example(exchanges)))
        fields["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        body = msgspec.json.encode(fields)
        read = cache.read(DIALECTS["anthropic"], body)
        assert parts(read) == alone("anthropic", body)
    assert read.known > 10


@pytest.mark.parametrize("name", WIRES)
def test_known_tools_do_not_make_a_request_look_as_if_it_referred_to_something(name: str) -> None:
    cache = ReadCache(1_000_000, least=0)
    for exchanges in (8, 9, 10):
        read = cache.read(DIALECTS[name], written(name, example(exchanges)))
    assert read.known
    assert not read.refers


def test_requests_of_another_owner_or_model_are_not_known() -> None:
    cache = ReadCache(1_000_000, least=0)
    body, dialect = written("openai_chat", example(9)), DIALECTS["openai_chat"]
    cache.read(dialect, body, owner="one", model="a")
    assert cache.read(dialect, body, owner="one", model="a").known
    assert not cache.read(dialect, body, owner="other", model="a").known
    other = cache.read(dialect, body, owner="one", model="b")
    assert not other.known
    assert {message.origin.model for message in other.conversation.messages if message.origin} == {"b"}


def test_what_is_kept_has_a_bound() -> None:
    cache = ReadCache(20_000, least=0)
    for number in range(30):
        cache.read(DIALECTS["openai_chat"], written("openai_chat", example(8, f"{number} " * 100)))
        assert 0 < cache.budget.held <= 20_000
    assert not ReadCache(100, least=0).read(DIALECTS["openai_chat"], written("openai_chat", example(8))).known


def test_the_switch_for_fast_paths_turns_it_off() -> None:
    cache = ReadCache(1_000_000, least=0)
    with fast_paths.disabled():
        for exchanges in (8, 9):
            assert not cache.read(DIALECTS["anthropic"], written("anthropic", example(exchanges))).known
    assert not cache.budget.held


def test_a_request_that_is_none_is_refused_as_ever() -> None:
    cache = ReadCache(1_000_000, least=0)
    cache.read(DIALECTS["anthropic"], written("anthropic", example(9)))
    with pytest.raises(msgspec.DecodeError):
        cache.read(DIALECTS["anthropic"], written("anthropic", example(10))[:-1])
    with pytest.raises(TranscriptError):
        cache.read(DIALECTS["anthropic"], b"[]")


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", WIRES)
def test_what_may_be_the_end_of_a_request_is_not_read(name: str, known: bool) -> None:
    cache = ReadCache(1_000_000, least=0)
    if known:
        cache.read(DIALECTS[name], written(name, example(8)))
    fields = json.loads(written(name, example(9)))
    body = json.dumps({**fields, "thread": None}, separators=(",", ":")).encode()
    with pytest.raises(PartialRequestError):
        cache.read(DIALECTS[name], body, unless=("thread",))
    assert parts(cache.read(DIALECTS[name], body, unless=("other",))) == alone(name, body)

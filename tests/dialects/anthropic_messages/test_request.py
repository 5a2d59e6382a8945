"""Requests of the Messages wire: what is spelled how, and what comes back when it is read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.anthropic_messages import DIALECT
from segue.dialects.anthropic_messages.settings import DEFAULT_MAX_TOKENS
from segue.dialects.card import UNKNOWN, ModelCard, fit_rules
from segue.dialects.dialect import EncodedRequest
from segue.emulators.anthropic.checks import complaints
from segue.emulators.model.model_facts import facts_for
from segue.emulators.rules import Context
from segue.errors import TranscriptError
from segue.providers.models.cards import card_for_model
from segue.transcript.adopt import adopt
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.steps import ModelStep, Transcript, UserStep
from strategies.examples import AT_LEAST_100
from strategies.histories import conversations
from strategies.settings import READ, options, tools

requirement = pytest.mark.requirement

MODELS = (
    "claude-3-5-haiku-20241022",
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-opus-5-5",
)
HERE = DIALECT.rules.at(model="claude-x").target
MANUAL = ModelCard(thinking="manual", output=64_000, bound_seals=False)
ADAPTIVE = ModelCard(thinking="adaptive", efforts=("low", "medium", "high", "max"))


def ask(
    *messages: Message,
    card: ModelCard = UNKNOWN,
    offered: tuple[ToolSpec, ...] = (),
    system: str = "",
    **asked: Any,
) -> tuple[dict[str, Any], EncodedRequest]:
    rules = fit_rules(DIALECT.rules.at(model="claude-x"), card)
    conversation = adopt(messages, system=system).conversation
    transcript = render(conversation, None, rules, Policy(tool_names=tuple(spec.name for spec in offered)))
    encoded = DIALECT.encode_request(transcript, offered, Options(model="claude-x", **asked), card)
    return json.loads(encoded.body), encoded


def kinds(encoded: EncodedRequest) -> set[tuple[str, str]]:
    return {(repair.kind, repair.path) for repair in encoded.repairs}


def thought(text: str, payload: str, kind: Any = "signature") -> Reasoning:
    return Reasoning(text, Seal(HERE, payload, kind))


WEATHER = ToolCall("", "read", {"city": "Paris"}, native_id="toolu_1")
LOOP = (
    user("Weather?"),
    model(WEATHER, origin=HERE),
    tool(ToolResult("", "read", "18", native_id="toolu_1")),
)


@AT_LEAST_100
@requirement("Scenario: Chat Completion with Tools", "Property 13")
@given(data=st.data())
def test_no_history_and_no_options_make_the_provider_complain(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(MODELS))
    card = card_for_model(name, "anthropic")
    rules = fit_rules(DIALECT.rules.at(provider="p", endpoint="e", model=name), card)
    conversation = without_sealed_texts(data.draw(conversations(rules)))
    offered = data.draw(tools)
    policy = Policy(tool_names=tuple(spec.name for spec in offered))
    asked = structs.replace(data.draw(options), model=name)
    encoded = DIALECT.encode_request(render(conversation, None, rules, policy), offered, asked, card)
    facts = {**facts_for("anthropic", name), "trust_foreign_signatures": True}
    found = complaints(json.loads(encoded.body), Context(model=name, facts=facts))
    assert [refusal for refusal in found if refusal.confidence != "L"] == []


@given(data=st.data())
def test_a_request_we_sent_is_read_and_sent_again_the_same(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(MODELS))
    card = card_for_model(name, "anthropic")
    rules = fit_rules(DIALECT.rules.at(model=name), card)
    conversation = without_sealed_texts(data.draw(conversations(rules)))
    offered = data.draw(tools)
    asked = structs.replace(data.draw(options), model=name)
    policy = Policy(tool_names=tuple(spec.name for spec in offered))
    sent = DIALECT.encode_request(render(conversation, None, rules, policy), offered, asked, card)
    read = DIALECT.decode_request(json.loads(sent.body))
    ours = adopt(read.messages, system=read.system, dialect="anthropic").conversation
    again = render(ours, None, rules, Policy(tool_names=tuple(spec.name for spec in read.tools)))
    encoded = DIALECT.encode_request(again, read.tools, read.options, card)
    assert json.loads(encoded.body) == json.loads(sent.body)
    assert encoded.repairs == ()


def without_sealed_texts(conversation: Conversation) -> Conversation:
    """Only another wire seals texts, so no text of this one ever bears a seal."""
    messages = tuple(
        structs.replace(
            message,
            blocks=tuple(Text(block.text) if type(block) is Text else block for block in message.blocks),
        )
        for message in conversation.messages
    )
    return structs.replace(conversation, messages=messages)


def test_results_come_first_and_the_user_speaks_behind_them_in_the_same_message() -> None:
    body, _ = ask(*LOOP, user("And in Rome?"))
    assert body["messages"][2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "18"},
            {"type": "text", "text": "And in Rome?"},
        ],
    }


def test_thoughts_go_back_as_they_came() -> None:
    blocks = (
        thought("", "SIG-omitted"),
        thought("", "DATA", "redacted"),
        thought("Hm.", "SIG"),
        Text("Yes."),
    )
    body, _ = ask(user("?"), model(*blocks, origin=HERE), user("!"), card=ModelCard(bound_seals=False))
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "", "signature": "SIG-omitted"},
        {"type": "redacted_thinking", "data": "DATA"},
        {"type": "thinking", "thinking": "Hm.", "signature": "SIG"},
        {"type": "text", "text": "Yes."},
    ]


def test_a_failed_result_is_flagged_and_says_something() -> None:
    failed = tool(ToolResult("", "read", error="", native_id="toolu_1"))
    body, _ = ask(user("?"), model(WEATHER, origin=HERE), failed)
    (result,) = body["messages"][2]["content"]
    assert result["is_error"] is True
    assert result["content"].strip()


def test_media_is_shown_in_the_ways_of_the_wire() -> None:
    text = Media("document", "text/plain", "aGVsbG8=", name="note.txt")
    seen = (Media("image", "image/png", "iVBO"), Media("image", url="https://example.invalid/cat.png"), text)
    body, _ = ask(user("Look:", *seen, Media("document", data="JVBE")))
    assert body["messages"][0]["content"][1:] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.invalid/cat.png"}},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "hello"},
            "title": "note.txt",
        },
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}},
    ]


def test_a_picture_in_a_result_stays_in_it() -> None:
    shown = ToolResult("", "read", "a cat", media=(Media("image", "image/png", "iVBO"),), native_id="toolu_1")
    body, _ = ask(user("?"), model(WEATHER, origin=HERE), tool(shown))
    (result,) = body["messages"][2]["content"]
    assert [part["type"] for part in result["content"]] == ["text", "image"]


@requirement("Scenario: Chat Completion with Tools")
def test_tools_and_choice_are_absent_without_tools_and_explicit_with_them() -> None:
    bare, _ = ask(user("?"))
    assert not {"tools", "tool_choice"} & bare.keys()
    body, _ = ask(user("?"), offered=(READ,))
    assert body["tool_choice"] == {"type": "auto"}
    assert body["tools"][0]["name"] == "read"
    assert body["tools"][0]["input_schema"]["type"] == "object"


@pytest.mark.parametrize(
    ("choice", "spelled"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        (Named("read"), {"type": "tool", "name": "read"}),
    ],
)
def test_every_choice_has_its_spelling(choice: Any, spelled: dict[str, str]) -> None:
    body, encoded = ask(user("?"), offered=(READ,), tool_choice=choice)
    assert body["tool_choice"] == spelled
    assert encoded.repairs == ()


def test_one_call_at_a_time_is_part_of_the_choice() -> None:
    body, _ = ask(user("?"), offered=(READ,), parallel_calls=False)
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


@pytest.mark.parametrize("card", [ModelCard(forced_choice=False), MANUAL])
def test_a_forced_choice_is_weakened_aloud_where_it_is_refused(card: ModelCard) -> None:
    body, encoded = ask(user("?"), card=card, offered=(READ,), tool_choice="required", thinking_budget=2048)
    assert body["tool_choice"] == {"type": "auto"}
    assert ("choice_weakened", "options.tool_choice") in kinds(encoded)


def test_names_are_spelled_the_same_in_tools_calls_and_choice() -> None:
    weather = ToolSpec("get.weather")
    call = ToolCall("", "get.weather", {})
    body, _ = ask(user("?"), model(call), offered=(weather,), tool_choice=Named("get.weather"))
    (name,) = {
        body["tools"][0]["name"],
        body["messages"][1]["content"][0]["name"],
        body["tool_choice"]["name"],
    }
    assert name != "get.weather"


def test_a_limit_is_always_sent() -> None:
    assert ask(user("?"))[0]["max_tokens"] == DEFAULT_MAX_TOKENS
    assert ask(user("?"), card=ModelCard(output=4096))[0]["max_tokens"] == 4096
    assert ask(user("?"), max_tokens=7)[0]["max_tokens"] == 7
    body, encoded = ask(user("?"), card=ModelCard(output=4096), max_tokens=9000)
    assert body["max_tokens"] == 4096
    assert kinds(encoded) == {("option_not_sent", "options.max_tokens")}


def test_thinking_by_budget() -> None:
    body, _ = ask(user("?"), card=MANUAL, thinking_budget=2048)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert ask(user("?"), card=MANUAL, thinking_budget=5)[0]["thinking"]["budget_tokens"] == 1024
    body, encoded = ask(user("?"), card=MANUAL, thinking_budget=9000, max_tokens=2000)
    assert body["thinking"]["budget_tokens"] == 1999
    assert kinds(encoded) == {("option_not_sent", "options.thinking_budget")}
    assert "thinking" not in ask(user("?"), card=MANUAL, thinking_budget=2048, max_tokens=1000)[0]


def test_thinking_by_effort() -> None:
    body, _ = ask(user("?"), card=ADAPTIVE, effort="high")
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "high"}
    body, encoded = ask(user("?"), card=ADAPTIVE, effort="xhigh")
    assert body["output_config"] == {"effort": "high"}
    assert kinds(encoded) == {("option_not_sent", "options.effort")}
    assert ask(user("?"), card=ADAPTIVE, effort="none")[0]["thinking"] == {"type": "disabled"}


def test_what_always_thinks_is_not_told_to_stop() -> None:
    body, encoded = ask(user("?"), card=ModelCard(thinking="always"), effort="none")
    assert "thinking" not in body
    assert kinds(encoded) == {("option_not_sent", "options.effort")}


def test_an_open_loop_without_thoughts_is_answered_without_thinking() -> None:
    body, encoded = ask(*LOOP, card=MANUAL, thinking_budget=2048)
    assert body["thinking"] == {"type": "disabled"}
    assert kinds(encoded) == {("thinking_changed", "options.thinking")}


def test_an_open_loop_that_begins_with_a_thought_goes_on_thinking() -> None:
    first, asked, answered = LOOP
    thinking = structs.replace(asked, blocks=(thought("Hm.", "SIG"), *asked.blocks))
    body, encoded = ask(first, thinking, answered, card=MANUAL, thinking_budget=2048)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert encoded.repairs == ()


def test_a_closed_loop_does_not_keep_the_model_from_thinking() -> None:
    body, _ = ask(*LOOP, model("18.", origin=HERE), user("Thanks."), card=MANUAL, thinking_budget=2048)
    assert body["thinking"]["type"] == "enabled"


def test_options_the_target_does_not_know_are_reported() -> None:
    body, encoded = ask(user("?"), seed=1, repeat_penalty=1.1, stop=("END", " "), temperature=0)
    assert body["stop_sequences"] == ["END"]
    assert body["temperature"] == 0
    assert kinds(encoded) == {
        ("option_not_sent", "options.seed"),
        ("option_not_sent", "options.repeat_penalty"),
        ("option_not_sent", "options.stop"),
    }


def test_sampling_is_not_sent_to_a_model_that_refuses_it() -> None:
    body, encoded = ask(user("?"), card=ModelCard(sampling=False), temperature=0, top_p=0.5, top_k=3)
    assert not {"temperature", "top_p", "top_k"} & body.keys()
    assert len(encoded.repairs) == 3


def test_a_transcript_for_another_target_is_refused() -> None:
    steps = (UserStep((Text("?"),)), ModelStep((Reasoning("Hm."), Text("Yes."))))
    with pytest.raises(TranscriptError) as caught:
        DIALECT.encode_request(Transcript(steps), (), Options(model="m"), UNKNOWN)
    assert caught.value.path == "steps[1]"


def test_a_foreign_request_is_read_as_it_is() -> None:
    read = DIALECT.decode_request(
        {
            "model": "claude-x",
            "max_tokens": 100,
            "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
            "messages": [
                {"role": "user", "content": "Weather?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "", "signature": "SIG"},
                        {"type": "redacted_thinking", "data": "DATA"},
                        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"city": "Paris"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": "no"},
                        {"type": "text", "text": "Well?"},
                    ],
                },
            ],
        }
    )
    assert read.system == "Be brief.\n\nBe kind."
    asked, said, answered, well = read.messages
    assert (asked.text, well.text) == ("Weather?", "Well?")
    assert said.origin == Origin("anthropic", model="claude-x")
    assert said.blocks == (
        Reasoning("", Seal(said.origin, "SIG")),
        Reasoning("", Seal(said.origin, "DATA", "redacted")),
        ToolCall("", "read", {"city": "Paris"}, native_id="toolu_1"),
    )
    assert answered == tool(ToolResult("", error="no", complete=True, native_id="toolu_1"))


def test_what_the_wire_has_of_its_own_comes_back_as_it_was() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    careful = {"name": "read", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
    body = {
        "model": "claude-x",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "adaptive", "display": "summarized"},
        "tools": [careful, search],
        "metadata": {"user_id": "u"},
        "messages": [{"role": "user", "content": "?"}],
    }
    read = DIALECT.decode_request(body)
    rules = DIALECT.rules.at(model="claude-x")
    ours = adopt(read.messages, system=read.system).conversation
    encoded = DIALECT.encode_request(render(ours, None, rules), read.tools, read.options, UNKNOWN)
    again = json.loads(encoded.body)
    for key in ("system", "thinking", "metadata"):
        assert again[key] == body[key]
    assert again["tools"][1] == search
    assert again["tools"][0]["cache_control"] == {"type": "ephemeral"}


def test_blocks_of_the_providers_own_come_back_to_it_and_are_told_to_others_in_words() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "cats"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    file = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    messages = [
        {"role": "user", "content": [file]},
        {"role": "assistant", "content": [search, found, {"type": "text", "text": "Cats."}]},
        {"role": "user", "content": "More."},
    ]
    read = DIALECT.decode_request({"model": "claude-x", "messages": messages})
    assert '"query":"cats"' in read.messages[1].text
    ours = adopt(read.messages).conversation
    again = DIALECT.encode_request(
        render(ours, None, DIALECT.rules.at(model="claude-x")), (), read.options, UNKNOWN
    )
    assert json.loads(again.body)["messages"] == messages
    elsewhere = render(ours, None, DIALECT.rules.at(model="claude-y"))
    told = json.loads(DIALECT.encode_request(elsewhere, (), Options(model="claude-y"), UNKNOWN).body)[
        "messages"
    ]
    assert {block["type"] for block in told[1]["content"]} == {"text"}
    assert {repair.kind for repair in elsewhere.repairs} == {"seal_dropped"}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"messages": "hello"}, "messages"),
        ({"messages": [17]}, "messages[0]"),
        ({"messages": [{"role": "king", "content": "?"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]},
            "messages[0].content[0].text",
        ),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type"),
        ({"messages": [], "max_tokens": "many"}, "max_tokens"),
        ({"messages": [], "tools": [{"name": "x", "input_schema": 1}]}, "tools[0].input_schema"),
    ],
)
def test_wrong_types_are_refused_with_the_place(body: dict[str, Any], path: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        DIALECT.decode_request(body)
    assert (caught.value.code, caught.value.path) == ("bad_request_body", path)


@pytest.mark.parametrize(
    ("body", "sure"),
    [
        ({"messages": [{"role": "user", "content": "?"}], "system": "S"}, True),
        ({"messages": [], "tools": [{"name": "x", "input_schema": {}}]}, True),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]}, True),
        ({"messages": [{"role": "tool", "content": "?"}]}, False),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, False),
        ({"contents": []}, False),
        ({"input": "?"}, False),
    ],
)
def test_requests_of_this_wire_are_recognised(body: dict[str, Any], sure: bool) -> None:
    assert (DIALECT.recognises(body) > 0.5) is sure


# The schema of an answer

ROUTE = {"type": "object", "properties": {"stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}}}}
STOP = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "metres": {"type": "number", "minimum": 0}},
}


def test_every_object_in_the_schema_of_an_answer_is_closed() -> None:
    body, encoded = ask(user("?"), response_schema={**ROUTE, "$defs": {"stop": STOP}})
    schema = body["output_config"]["format"]["schema"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["stop"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "metres": {"type": "number"}},
        "additionalProperties": False,
    }
    assert kinds(encoded) == {("schema_reduced", "options.response_schema")}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {**ROUTE, "$defs": {"stop": {**STOP, "additionalProperties": True}}},
        {**ROUTE, "$defs": {"stop": {"type": "object", "properties": {"next": {"$ref": "#/$defs/stop"}}}}},
        {"type": "object", "properties": {"inner": {"$ref": "#"}}},
        ROUTE,
    ],
)
def test_a_schema_that_cannot_be_closed_is_not_sent(schema: dict[str, Any]) -> None:
    body, encoded = ask(user("?"), response_schema=schema)
    assert "output_config" not in body
    assert kinds(encoded) == {("option_not_sent", "options.response_schema")}


def test_a_model_without_schemas_gets_none_in_whatever_field_it_came() -> None:
    shape = {"type": "json_schema", "schema": {**STOP, "additionalProperties": False}}
    for fields in ({"output_config": {"format": shape}}, {"output_format": shape}):
        asked = DIALECT.decode_request({"max_tokens": 9, "messages": [], **fields}).options
        given = {name: value for name, value in structs.asdict(asked).items() if name != "model"}
        body, encoded = ask(user("?"), card=ModelCard(answer_schema=False), **given)
        assert not {"output_config", "output_format"} & body.keys()
        assert ("option_not_sent", "options.response_schema") in kinds(encoded)

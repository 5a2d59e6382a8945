"""Requests of the Responses wire: what is spelled how, and what comes back when it is read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dialects.neutral import neutral_message
from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Message, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.card import UNKNOWN, ModelCard, fit_rules
from segue.dialects.dialect import EncodedRequest
from segue.dialects.openai_responses import DIALECT
from segue.emulators.model.model_facts import facts_for
from segue.emulators.openai_responses.checks import complaints
from segue.emulators.rules import Context
from segue.errors import TranscriptError
from segue.providers.models.cards import card_for_model
from segue.transcript.adopt import adopt
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.steps import ModelStep, Transcript, UserStep
from strategies.examples import AT_LEAST_100
from strategies.histories import conversations
from strategies.settings import CLOSED, READ, options, tools

requirement = pytest.mark.requirement

MODELS = ("gpt-4.1", "gpt-4o", "gpt-5", "gpt-5.2", "gpt-5.6", "gpt-6-astra", "o3")
HERE = DIALECT.rules.at(model="gpt-x").target
THINKS = ModelCard(match="gpt-x", thinking="effort", efforts=("minimal", "low", "medium", "high"))


def ask(
    *messages: Message,
    card: ModelCard = UNKNOWN,
    offered: tuple[ToolSpec, ...] = (),
    system: str = "",
    **asked: Any,
) -> tuple[dict[str, Any], EncodedRequest]:
    rules = fit_rules(DIALECT.rules.at(model="gpt-x"), card)
    conversation = adopt(messages, system=system).conversation
    transcript = render(conversation, None, rules, Policy(tool_names=tuple(spec.name for spec in offered)))
    encoded = DIALECT.encode_request(transcript, offered, Options(model="gpt-x", **asked), card)
    return json.loads(encoded.body), encoded


def kinds(encoded: EncodedRequest) -> set[tuple[str, str]]:
    return {(repair.kind, repair.path) for repair in encoded.repairs}


def call(name: str, native_id: str) -> ToolCall:
    return ToolCall("", name, {"city": name}, native_id=native_id)


@AT_LEAST_100
@requirement("Scenario: Chat Completion with Tools", "Property 13")
@given(data=st.data())
def test_no_history_and_no_options_make_the_provider_complain(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(MODELS))
    card = card_for_model(name, "openai_responses")
    rules = fit_rules(DIALECT.rules.at(provider="p", endpoint="e", model=name), card)
    conversation = data.draw(conversations(rules))
    offered = data.draw(tools)
    policy = Policy(tool_names=tuple(spec.name for spec in offered))
    asked = structs.replace(data.draw(options), model=name)
    encoded = DIALECT.encode_request(render(conversation, None, rules, policy), offered, asked, card)
    found = complaints(json.loads(encoded.body), Context(model=name, facts=facts_for("openai", name)))
    # The seals of these histories are made up, which the emulator finds out (RESP-46).
    assert [refusal for refusal in found if refusal.confidence != "L" and refusal.rule != "RESP-46"] == []


@given(data=st.data())
def test_a_request_we_sent_is_read_and_sent_again_the_same(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(MODELS))
    card = card_for_model(name, "openai_responses")
    rules = fit_rules(DIALECT.rules.at(model=name), card)
    offered = data.draw(tools)
    policy = Policy(tool_names=tuple(spec.name for spec in offered))
    first = render(data.draw(conversations(rules)), None, rules, policy)
    asked = structs.replace(data.draw(options), model=name)
    sent = DIALECT.encode_request(first, offered, asked, card)
    read = DIALECT.decode_request(json.loads(sent.body))
    ours = adopt(read.messages, system=read.system, dialect="openai_responses").conversation
    again = render(ours, None, rules, Policy(tool_names=tuple(spec.name for spec in read.tools)))
    encoded = DIALECT.encode_request(again, read.tools, read.options, card)
    assert json.loads(encoded.body) == json.loads(sent.body)
    assert encoded.repairs == ()


def test_items_follow_as_every_server_takes_them_and_have_no_ids() -> None:
    said = model(
        Reasoning("Two lookups.", Seal(HERE, "gAAA", "encrypted")),
        Text("Checking."),
        call("paris", "call_1"),
        call("rome", "call_2"),
        origin=HERE,
    )
    results = tool(
        ToolResult("", output="18", native_id="call_1"), ToolResult("", output="20", native_id="call_2")
    )
    body, _ = ask(user("?"), said, results, system="Be brief.")
    assert body["instructions"] == "Be brief."
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert body["input"] == [
        {"type": "message", "role": "user", "content": "?"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Two lookups."}],
            "encrypted_content": "gAAA",
        },
        {"type": "message", "role": "assistant", "content": "Checking."},
        {"type": "function_call", "call_id": "call_1", "name": "paris", "arguments": '{"city":"paris"}'},
        {"type": "function_call", "call_id": "call_2", "name": "rome", "arguments": '{"city":"rome"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "18"},
        {"type": "function_call_output", "call_id": "call_2", "output": "20"},
    ]


def test_a_note_in_mid_conversation_is_the_developers() -> None:
    body, _ = ask(user("?"), Message("user", (Text("Be quick."),), instruction=True))
    assert body["input"][1] == {"type": "message", "role": "developer", "content": "Be quick."}


def test_notes_that_lead_the_messages_are_part_of_the_instructions() -> None:
    notes = [Message("user", (Text(text),), instruction=True) for text in ("Be quick.", "Be kind.")]
    body, _ = ask(*notes, user("?"), system="Be brief.")
    assert body["instructions"] == "Be brief.\n\nBe quick.\n\nBe kind."
    assert body["input"] == [{"type": "message", "role": "user", "content": "?"}]
    read = DIALECT.decode_request(body)
    assert (read.system, len(read.messages)) == (body["instructions"], 1)
    assert ask(*notes)[0]["input"] == [{"type": "message", "role": "developer", "content": "Be kind."}]


def test_media_is_shown_to_the_model_by_user_and_tool() -> None:
    image, page = Media("image", "image/png", "iVBO"), Media("document", data="JVBE", name="a.pdf")
    shown = ToolResult("", output="see", media=(image,), native_id="call_1")
    far = Media("document", url="https://example.invalid/a.pdf")
    body, _ = ask(user("Look:", image, page, far), model(call("x", "call_1"), origin=HERE), tool(shown))
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"}
    assert body["input"][0]["content"] == [
        {"type": "input_text", "text": "Look:"},
        picture,
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_file", "file_url": "https://example.invalid/a.pdf"},
    ]
    assert body["input"][2]["output"] == [{"type": "input_text", "text": "see"}, picture]


@requirement("Scenario: Chat Completion with Tools")
def test_tools_are_flat_and_say_whether_they_are_strict() -> None:
    bare, _ = ask(user("?"))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & bare.keys()
    closed = ToolSpec("closed", parameters=CLOSED, strict=True)
    body, encoded = ask(user("?"), offered=(READ, closed, structs.replace(READ, name="loose", strict=True)))
    assert [(tool["type"], tool["name"], tool["strict"]) for tool in body["tools"]] == [
        ("function", "read", False),
        ("function", "closed", True),
        ("function", "loose", False),
    ]
    assert body["tool_choice"] == "auto"
    assert kinds(encoded) == {("option_not_sent", "tools[2].strict")}


@pytest.mark.parametrize(
    ("choice", "spelled"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (Named("read"), {"type": "function", "name": "read"}),
    ],
)
def test_every_choice_has_its_spelling(choice: Any, spelled: object) -> None:
    body, encoded = ask(user("?"), offered=(READ,), tool_choice=choice, parallel_calls=False)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == (spelled, False)
    assert encoded.repairs == ()


def test_a_forced_choice_is_weakened_aloud_where_it_is_refused() -> None:
    card = ModelCard(forced_choice=False)
    body, encoded = ask(user("?"), card=card, offered=(READ,), tool_choice=Named("read"))
    assert body["tool_choice"] == "auto"
    assert kinds(encoded) == {("choice_weakened", "options.tool_choice")}


def test_a_limit_has_a_least_value() -> None:
    assert "max_output_tokens" not in ask(user("?"))[0]
    body, encoded = ask(user("?"), max_tokens=5)
    assert body["max_output_tokens"] == 16
    assert kinds(encoded) == {("option_not_sent", "options.max_tokens")}


def test_effort_is_asked_for_in_the_words_of_the_model() -> None:
    assert ask(user("?"), effort="xhigh")[0]["reasoning"] == {"effort": "xhigh"}
    body, encoded = ask(user("?"), card=THINKS, effort="none")
    assert body["reasoning"] == {"effort": "minimal"}
    assert kinds(encoded) == {("option_not_sent", "options.effort")}
    body, encoded = ask(user("?"), card=ModelCard(match="gpt-4*"), effort="high")
    assert "reasoning" not in body
    assert kinds(encoded) == {("option_not_sent", "options.effort")}


def test_options_the_target_does_not_know_are_reported() -> None:
    body, encoded = ask(user("?"), seed=1, top_k=3, stop=("END",), temperature=0, thinking_budget=9)
    assert body["temperature"] == 0
    assert {path for _, path in kinds(encoded)} == {
        "options.seed",
        "options.top_k",
        "options.stop",
        "options.thinking_budget",
    }
    body, encoded = ask(user("?"), card=ModelCard(sampling=False), temperature=0, top_p=0.5)
    assert not {"temperature", "top_p"} & body.keys()
    assert len(encoded.repairs) == 2


def test_an_answer_may_have_to_follow_a_schema() -> None:
    body, _ = ask(user("?"), response_schema=CLOSED)
    assert body["text"]["format"] == {
        "type": "json_schema",
        "name": "answer",
        "schema": CLOSED,
        "strict": True,
    }


def test_a_transcript_for_another_target_is_refused() -> None:
    steps = (UserStep((Text("?"),)), ModelStep((Reasoning("Hm."), Text("Yes."))))
    with pytest.raises(TranscriptError) as caught:
        DIALECT.encode_request(Transcript(steps), (), Options(model="m"), UNKNOWN)
    assert caught.value.path == "steps[1]"


def test_a_foreign_request_is_read_as_it_is() -> None:
    read = DIALECT.decode_request(
        {
            "model": "gpt-x",
            "instructions": "Be brief.",
            "input": [
                {"role": "developer", "content": "Be kind."},
                {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [
                        {"type": "summary_text", "text": "A."},
                        {"type": "summary_text", "text": "B."},
                    ],
                    "encrypted_content": "gAAA",
                },
                {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"cut'},
                {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "text"},
                {"type": "function_call_output", "call_id": "c1", "output": "18"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
                {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            ],
        }
    )
    assert read.system == "Be brief.\n\nBe kind."
    asked, said, answered, last = read.messages
    origin = Origin("openai_responses", model="gpt-x")
    assert neutral_message(said) == model(
        Reasoning("A.\n\nB.", Seal(origin, "gAAA", "encrypted")),
        ToolCall("", "read", None, '{"cut', "c1"),
        ToolCall("", "patch", {"input": "text"}, native_id="c2"),
        origin=origin,
    )
    assert neutral_message(answered) == tool(
        ToolResult("", output="18", complete=True, native_id="c1"),
        ToolResult("", output="done", complete=True, native_id="c2"),
    )
    assert (asked.text, last.text) == ("Weather?", "No.")


def test_what_the_wire_has_of_its_own_comes_back_as_it_was() -> None:
    search = {"type": "web_search"}
    body = {
        "model": "gpt-x",
        "input": "?",
        "tools": [search],
        "tool_choice": {"type": "web_search"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"},
        "metadata": {"a": "b"},
        "previous_response_id": "resp_1",
    }
    read = DIALECT.decode_request(body)
    ours = adopt(read.messages).conversation
    rules = DIALECT.rules.at(model="gpt-x")
    encoded = DIALECT.encode_request(render(ours, None, rules), read.tools, read.options, UNKNOWN)
    again = json.loads(encoded.body)
    # What the provider holds is not in the request: without the reference the conversation would lose its beginning.
    for key in ("tools", "tool_choice", "reasoning", "text", "metadata", "previous_response_id"):
        assert again[key] == body[key]
    assert kinds(encoded) == set()


def test_items_of_the_providers_own_come_back_to_it_and_are_told_to_others_in_words() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "cats"}}
    file = {"type": "input_file", "file_id": "file_1"}
    items = [{"type": "message", "role": "user", "content": [file]}, search]
    read = DIALECT.decode_request({"model": "gpt-x", "input": [*items, {"role": "user", "content": "?"}]})
    assert '"query":"cats"' in read.messages[1].text
    ours = adopt(read.messages).conversation
    again = DIALECT.encode_request(
        render(ours, None, DIALECT.rules.at(model="gpt-x")), (), read.options, UNKNOWN
    )
    assert json.loads(again.body)["input"][:2] == items
    elsewhere = render(ours, None, DIALECT.rules.at(model="gpt-y"))
    told = json.loads(DIALECT.encode_request(elsewhere, (), Options(model="gpt-y"), UNKNOWN).body)["input"]
    assert [item.get("type", "message") for item in told] == ["message"] * 3
    assert {repair.kind for repair in elsewhere.repairs} == {"seal_dropped"}


def test_a_reference_to_a_thought_that_the_provider_keeps_is_dropped() -> None:
    kept = {"type": "item_reference", "id": "rs_1"}
    body = {"input": [{"role": "user", "content": "?"}, kept, {"role": "assistant", "content": "yes"}, kept]}
    read = DIALECT.decode_request(body)
    transcript = render(adopt(read.messages).conversation, None, DIALECT.rules)
    assert [repair.kind for repair in transcript.repairs] == ["reasoning_dropped"]
    assert neutral_message(transcript.conversation().messages[1]) == model("yes", origin=transcript.target)


def test_a_tool_of_free_text_is_a_function_of_one_text() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
    read = DIALECT.decode_request(
        {"input": "?", "tools": [{"type": "custom", "name": "p", "format": grammar}]}
    )
    (spec,) = read.tools
    assert spec.parameters is not None
    assert spec.parameters["required"] == ["input"]
    assert "start: WORD" in spec.description


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"input": 3}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [{"role": "king", "content": "?"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 3}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": 3}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "fc_1"}]}, "input[0]"),
        ({"input": "?", "temperature": "hot"}, "temperature"),
        ({"input": "?", "tools": [{"type": "function", "name": 1}]}, "tools[0].name"),
    ],
)
def test_wrong_types_are_refused_with_the_place(body: dict[str, Any], path: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        DIALECT.decode_request(body)
    assert (caught.value.code, caught.value.path) == ("bad_request_body", path)


@pytest.mark.parametrize(
    ("body", "sure"),
    [
        ({"input": [{"role": "user", "content": "?"}]}, True),
        ({"input": "?", "instructions": "S"}, True),
        ({"input": ["embed me"]}, False),
        ({"messages": []}, False),
    ],
)
def test_requests_of_this_wire_are_recognised(body: dict[str, Any], sure: bool) -> None:
    assert (DIALECT.recognises(body) > 0.5) is sure


def test_the_sdk_takes_every_item_we_send() -> None:
    types = pytest.importorskip("openai.types.responses")
    from pydantic import TypeAdapter

    image = Media("image", "image/png", "iVBO")
    said = model(Text("Checking."), call("paris", "call_1"), origin=HERE)
    shown = tool(ToolResult("", output="18", media=(image,), native_id="call_1"))
    body, _ = ask(user("?", image, Media("document", data="JVBE")), said, shown, offered=(READ,))
    for item in body["input"]:
        TypeAdapter(types.ResponseInputItemParam).validate_python(item)
    for offered in body["tools"]:
        TypeAdapter(types.ToolParam).validate_python(offered)

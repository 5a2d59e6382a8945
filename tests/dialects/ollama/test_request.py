"""Requests of Ollama's own wire: what a transcript becomes, and what a foreign request is understood as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.neutral import neutral_messages
from laws.emulated import complaints_about
from segue.conversation.blocks import Media, Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.card import ModelCard, fit_rules
from segue.dialects.openai_chat.ollama import DIALECT
from segue.errors import TranscriptError
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.steps import ModelStep, Transcript, UserStep
from strategies.examples import AT_LEAST_100
from strategies.histories import conversations

TARGET = DIALECT.rules.at(model="qwen3:8b")
HERE = TARGET.target
WEATHER = ToolSpec("weather", "Tells it.", {"type": "object", "properties": {"city": {"type": "string"}}})
PICTURE = Media("image", "image/png", "iVBORw0KGgo=")


def encoded(
    conversation: Conversation,
    *tools: ToolSpec,
    card: ModelCard | None = None,
    options: Options | None = None,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    card = card or ModelCard()
    offered = Policy(tool_names=tuple(tool.name for tool in tools))
    transcript = render(conversation, None, fit_rules(TARGET, card), offered)
    request = DIALECT.encode_request(transcript, tools, options or Options(), card)
    return json.loads(request.body), [(repair.kind, repair.path) for repair in request.repairs]


def asked() -> Conversation:
    said = model(
        Reasoning("Hm."),
        Text("Looking."),
        ToolCall("", "weather", raw='{"city": "Paris"}', native_id="call_a1b2c3d4"),
        ToolCall("", "weather"),
        origin=HERE,
    )
    history = Conversation(system="Be brief.").append(user("Where?"), said)
    first, second = history.messages[-1].calls
    return history.append(
        tool(ToolResult(first.id, "weather", "18C"), ToolResult(second.id, "weather", error="timeout"))
    )


@pytest.mark.requirement("Property 14", "Scenario: Pass tools to Ollama API")
def test_arguments_are_objects_and_results_name_their_tool() -> None:
    told, _ = encoded(asked(), WEATHER)
    system, _, assistant, first, second = told["messages"]
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert system == {"role": "system", "content": "Be brief."}
    assert assistant == {
        "role": "assistant",
        "content": "Looking.",
        "thinking": "Hm.",
        "tool_calls": [
            {
                "id": "call_a1b2c3d4",
                "function": {"index": 0, "name": "weather", "arguments": {"city": "Paris"}},
            },
            {"id": ids[1], "function": {"index": 1, "name": "weather", "arguments": {}}},
        ],
    }
    assert first == {"role": "tool", "tool_name": "weather", "tool_call_id": ids[0], "content": "18C"}
    assert second["content"] == "Error: timeout"
    assert told["stream"] is False
    (offered,) = told["tools"]
    assert offered["type"] == "function"
    assert offered["function"]["name"] == "weather"


def test_images_go_as_plain_base64_beside_one_text() -> None:
    told, _ = encoded(Conversation().append(user("Look", PICTURE, "here")))
    assert told["messages"] == [{"role": "user", "content": "Look\n\nhere", "images": [PICTURE.data]}]


def test_options_go_to_the_engine() -> None:
    options = Options(
        max_tokens=9,
        temperature=0,
        top_p=0.5,
        top_k=4,
        repeat_penalty=1.1,
        seed=0,
        stop=("a",),
        stream=True,
        response_schema={"type": "object"},
        extra={"num_ctx": 8192, "keep_alive": "10m", "options": {"min_p": 0.1}},
    )
    told, repairs = encoded(Conversation().append(user("Hi")), options=options)
    assert told["options"] == {
        "min_p": 0.1,
        "num_ctx": 8192,
        "num_predict": 9,
        "repeat_penalty": 1.1,
        "seed": 0,
        "stop": ["a"],
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 4,
    }
    assert (told["keep_alive"], told["stream"], told["format"]) == ("10m", True, {"type": "object"})
    assert repairs == []


@pytest.mark.parametrize(
    ("card", "effort", "think", "repairs"),
    [
        (ModelCard(thinking="switch"), "high", True, []),
        (
            ModelCard(thinking="level", efforts=("low", "medium", "high")),
            "max",
            "high",
            [("option_not_sent", "options.effort")],
        ),
        (ModelCard(thinking="level"), "max", "max", []),
        (ModelCard(thinking="switch"), "none", False, []),
        (ModelCard(), "high", None, [("option_not_sent", "options.effort")]),
    ],
)
def test_thinking_is_asked_for_as_the_model_takes_it(
    card: ModelCard, effort: Any, think: Any, repairs: list[tuple[str, str]]
) -> None:
    told, found = encoded(Conversation().append(user("Hi")), card=card, options=Options(effort=effort))
    assert told.get("think") == think
    assert found == repairs


def test_the_wire_has_no_choice_of_tools_so_they_are_offered_or_not() -> None:
    now = ToolSpec("now")
    none, _ = encoded(Conversation().append(user("Hi")), WEATHER, options=Options(tool_choice="none"))
    assert "tools" not in none
    named, repairs = encoded(
        Conversation().append(user("Hi")), WEATHER, now, options=Options(tool_choice=Named("now"))
    )
    assert [tool["function"]["name"] for tool in named["tools"]] == ["now"]
    assert repairs == [("choice_weakened", "options.tool_choice")]
    assert "tool_choice" not in named


def test_a_model_without_tools_is_offered_none() -> None:
    told, repairs = encoded(Conversation().append(user("Hi")), WEATHER, card=ModelCard(tools=False))
    assert "tools" not in told
    assert repairs == [("option_not_sent", "tools")]


def test_what_the_server_would_drop_from_a_schema_is_said_in_words() -> None:
    picky = ToolSpec(
        "f", parameters={"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    )
    told, repairs = encoded(Conversation().append(user("Hi")), picky)
    assert told["tools"][0]["function"]["parameters"]["properties"]["n"] == {
        "type": "integer",
        "description": "(minimum: 1)",
    }
    assert repairs == [("schema_reduced", "tools[0]")]


def test_a_foreign_request_is_understood_and_goes_back_as_it_was() -> None:
    given = {
        "model": "qwen3:8b",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look", "images": [PICTURE.data]},
            {
                "role": "assistant",
                "content": "",
                "thinking": "Hm",
                "tool_calls": [
                    {"id": "call_a1b2c3d4", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}
                ],
            },
            {"role": "tool", "tool_name": "f", "tool_call_id": "call_a1b2c3d4", "content": "ok"},
        ],
        "think": True,
        "keep_alive": -1,
        "format": "json",
        "options": {"num_ctx": 4096, "num_predict": -1, "temperature": 0.5},
        "stream": True,
    }
    decoded = DIALECT.decode_request(given)
    origin = Origin("ollama", model="qwen3:8b")
    assert decoded.system == "Be brief."
    assert neutral_messages(decoded.messages) == (
        Message("user", (Text("Look"), PICTURE)),
        Message("model", (Reasoning("Hm"), ToolCall("", "f", {"a": 1}, native_id="call_a1b2c3d4")), origin),
        Message("tool", (ToolResult("", "f", "ok", complete=True, native_id="call_a1b2c3d4"),)),
    )
    assert decoded.options.max_tokens is None
    again, repairs = encoded(Conversation(decoded.messages, decoded.system), options=decoded.options)
    assert again == given
    assert repairs == []


def test_unasked_the_server_streams() -> None:
    assert DIALECT.decode_request({"messages": []}).options.stream is True
    assert DIALECT.decode_request({"messages": [], "stream": False}).options.stream is None


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "messages"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "images": [1]}]}, "messages[0].images[0]"),
        ({"messages": [], "options": {"num_predict": "many"}}, "options.num_predict"),
        ({"messages": [], "tools": [{"type": "function"}]}, "tools[0].function"),
    ],
)
def test_a_wrong_type_is_refused_with_the_place_it_stands_at(body: dict[str, Any], path: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        DIALECT.decode_request(body)
    assert caught.value.path == path


@pytest.mark.parametrize(
    "transcript",
    [
        Transcript((UserStep((Text("x"),), instruction=True),), target=HERE),
        Transcript((UserStep((Media("image", "image/png", url="https://a.invalid/x.png"),)),), target=HERE),
        Transcript((ModelStep((PICTURE,)),), target=HERE),
        Transcript((UserStep((Text("x"),)),), target=Origin("mistral")),
    ],
)
def test_what_was_rendered_for_another_target_is_refused(transcript: Transcript) -> None:
    with pytest.raises(TranscriptError):
        DIALECT.encode_request(transcript, (), Options(), ModelCard())


def test_its_own_marks_are_recognised() -> None:
    plain: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
    assert DIALECT.recognises({**plain, "options": {}}) > 0.9
    assert DIALECT.recognises(encoded(asked())[0]) > 0.9
    assert DIALECT.recognises(plain) < 0.5
    assert DIALECT.recognises({"messages": [{"role": "user", "content": []}]}) == 0


@AT_LEAST_100
@given(data=st.data())
@pytest.mark.requirement("Property 14")
def test_no_history_makes_the_strict_emulator_complain(data: st.DataObject) -> None:
    told, _ = encoded(data.draw(conversations(TARGET)), WEATHER)
    assert complaints_about(told, "ollama", "qwen3:8b", strict=True) == []


@given(data=st.data())
def test_the_vendors_own_types_take_every_request(data: st.DataObject) -> None:
    ollama = pytest.importorskip("ollama", reason="Ollama's client is not installed")
    told, _ = encoded(data.draw(conversations(TARGET)), WEATHER, ToolSpec("now"))
    for message in told["messages"]:
        ollama.Message.model_validate({key: value for key, value in message.items() if key != "images"})
    for offered in told["tools"]:
        ollama.Tool.model_validate(offered)

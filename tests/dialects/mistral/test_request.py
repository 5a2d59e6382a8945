"""Requests of the Mistral wire: what a transcript becomes, and what a foreign request is understood as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.protocol.instruct.messages import ChatMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion

from dialects.neutral import neutral_messages
from laws.emulated import complaints_about
from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.card import ModelCard, fit_rules
from segue.dialects.openai_chat.mistral import DIALECT
from segue.errors import TranscriptError
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.steps import ModelStep, Transcript, UserStep
from strategies.histories import conversations

TARGET = DIALECT.rules.at(model="mistral-medium-latest")
HERE = TARGET.target
WEATHER = ToolSpec("weather", "Tells it.", {"type": "object", "properties": {"city": {"type": "string"}}})
THINKS = ModelCard(replays_reasoning=True, bridge=False)
PICTURE = Media("image", "image/png", "aGk=")


def body_of(
    conversation: Conversation,
    *tools: ToolSpec,
    card: ModelCard | None = None,
    options: Options | None = None,
) -> dict[str, Any]:
    card = card or ModelCard()
    offered = Policy(tool_names=tuple(tool.name for tool in tools))
    transcript = render(conversation, None, fit_rules(TARGET, card), offered)
    encoded = DIALECT.encode_request(transcript, tools, options or Options(), card)
    told: dict[str, Any] = json.loads(encoded.body)
    return told


def asked() -> Conversation:
    said = model(
        Reasoning("Hm."),
        Text("Looking."),
        ToolCall("", "weather", raw='{"city": "Paris"}', native_id="aB3dE5f7G"),
        ToolCall("", "weather", {"city": "Rome"}),
        origin=HERE,
    )
    history = Conversation(system="Be brief.").append(user("Where?"), said)
    first, second = history.messages[-1].calls
    return history.append(
        tool(ToolResult(first.id, "weather", "18C"), ToolResult(second.id, "weather", error="timeout"))
    )


def test_messages_hold_only_the_fields_this_wire_knows() -> None:
    told = body_of(asked(), WEATHER)
    _, _, assistant, first, second = told["messages"]
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert ids[0] == "aB3dE5f7G"
    assert len(ids[1]) == 9
    assert assistant == {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [
            {
                "id": ids[0],
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
            },
            {
                "id": ids[1],
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
            },
        ],
    }
    assert first == {"role": "tool", "tool_call_id": ids[0], "name": "weather", "content": "18C"}
    assert second["content"] == "Error: timeout"
    assert told["messages"][0] == {"role": "system", "content": "Be brief."}
    assert told["tool_choice"] == "auto"


def test_a_model_that_thinks_gets_its_thoughts_back_as_chunks() -> None:
    assistant = body_of(asked(), card=THINKS)["messages"][2]
    assert assistant["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Looking."},
    ]


def test_images_are_shown_by_the_user_as_addresses() -> None:
    message = body_of(Conversation().append(user("Look", PICTURE)))["messages"][0]
    assert message["content"][1] == {"type": "image_url", "image_url": "data:image/png;base64,aGk="}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "auto"),
        ("none", "none"),
        ("required", "any"),
        (Named("weather"), {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_the_choice_of_tools(choice: Any, expected: Any) -> None:
    told = body_of(Conversation().append(user("Hi")), WEATHER, options=Options(tool_choice=choice))
    assert told["tool_choice"] == expected
    assert DIALECT.decode_request(told).options.tool_choice == (choice or "auto")


def test_a_function_without_parameters_still_says_so() -> None:
    told = body_of(Conversation().append(user("Hi")), ToolSpec("now"))
    assert told["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_without_tools_there_is_neither_a_list_nor_a_choice() -> None:
    told = body_of(Conversation().append(user("Hi")), options=Options(parallel_calls=False))
    assert told.keys() == {"model", "messages"}


def test_options_in_the_words_of_this_wire() -> None:
    options = Options(
        stream=True,
        seed=7,
        temperature=0,
        top_p=0.5,
        max_tokens=9,
        stop=("a",),
        top_k=4,
        response_schema={"type": "object"},
    )
    transcript = render(Conversation().append(user("Hi")), None, TARGET)
    encoded = DIALECT.encode_request(transcript, (), options, ModelCard())
    told = json.loads(encoded.body)
    assert {key: told[key] for key in told if key not in ("model", "messages")} == {
        "stream": True,
        "random_seed": 7,
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 9,
        "stop": ["a"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
    }
    assert [repair.path for repair in encoded.repairs] == ["options.top_k"]
    again = DIALECT.decode_request(told).options
    assert (again.seed, again.temperature, again.response_schema) == (7, 0, {"type": "object"})


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        (ModelCard(thinking="effort", efforts=("none", "high")), {"reasoning_effort": "high"}),
        (ModelCard(thinking="switch"), {"prompt_mode": "reasoning"}),
        (ModelCard(), {}),
        (ModelCard(thinking="always"), {}),
    ],
)
def test_effort_is_told_only_to_models_that_take_it(card: ModelCard, expected: dict[str, Any]) -> None:
    told = body_of(Conversation().append(user("Hi")), card=card, options=Options(effort="medium"))
    assert {key: told[key] for key in told if key not in ("model", "messages")} == expected


def test_what_has_no_word_of_ours_goes_through_in_its_own() -> None:
    given = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "safe_prompt": True,
        "reasoning_effort": "high",
        "n": 1,
    }
    decoded = DIALECT.decode_request(given)
    assert decoded.options.effort == "high"
    assert body_of(Conversation(decoded.messages), options=decoded.options) == given


def test_a_foreign_request_is_understood() -> None:
    origin = Origin("mistral", model="m")
    decoded = DIALECT.decode_request(
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "One."},
                {"role": "system", "content": [{"type": "text", "text": "Two."}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Look"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}], "signature": "s"}
                    ],
                    "tool_calls": [
                        {"id": "aB3dE5f7G", "function": {"name": "f", "arguments": '{"a":'}},
                        {"id": "null", "function": {"name": "g", "arguments": {"b": 1}}},
                    ],
                },
                {"role": "tool", "tool_call_id": "zzz", "name": "f", "content": "ok"},
                {"role": "system", "content": "Later."},
                {
                    "role": "user",
                    "content": [
                        {"type": "document_url", "document_url": "https://a.invalid/b.pdf"},
                        {"type": "reference", "reference_ids": [1]},
                    ],
                },
            ],
        }
    )
    assert decoded.system == "One.\n\nTwo."
    assert neutral_messages(decoded.messages) == (
        Message("user", (Text("Look"), PICTURE)),
        Message(
            "model",
            (
                Reasoning("Hm", Seal(origin, "s")),
                ToolCall("", "f", None, '{"a":', "aB3dE5f7G"),
                ToolCall("", "g", {"b": 1}),
            ),
            origin,
        ),
        Message("tool", (ToolResult("", "f", "ok", complete=True, native_id="zzz"),)),
        Message("user", (Text("Later."),), instruction=True),
        Message(
            "user",
            (Media("document", url="https://a.invalid/b.pdf"), Text('[reference: {"reference_ids":[1]}]')),
        ),
    )


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "messages"),
        ({"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 7}]}]},
            "messages[0].content[0].text",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        ({"messages": [], "tool_choice": "maybe"}, "tool_choice"),
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
        Transcript((UserStep((Media("audio", "audio/wav", "aGk="),)),), target=HERE),
        Transcript((ModelStep((PICTURE,)),), target=HERE),
        Transcript((UserStep((Text("x"),)),), target=Origin("gemini")),
    ],
)
def test_what_was_rendered_for_another_target_is_refused(transcript: Transcript) -> None:
    with pytest.raises(TranscriptError):
        DIALECT.encode_request(transcript, (), Options(), ModelCard())


def test_its_own_marks_are_recognised() -> None:
    plain = {"messages": [{"role": "user", "content": "Hi"}]}
    called = {"messages": [{"role": "assistant", "tool_calls": [{"id": "aB3dE5f7G", "function": {}}]}]}
    assert DIALECT.recognises({**plain, "random_seed": 1}) > 0.9
    assert DIALECT.recognises(called) > 0.9
    assert DIALECT.recognises(body_of(asked(), card=THINKS)) > 0.9
    assert DIALECT.recognises(plain) < 0.5
    assert DIALECT.recognises({**plain, "max_completion_tokens": 1}) < 0.5
    assert DIALECT.recognises({"contents": []}) == 0


LIBRARY = [
    ("mistral-large-2411", TokenizerVersion.v7, ModelCard()),
    ("mistral-small-2506", TokenizerVersion.v11, ModelCard()),
    ("mistral-medium-latest", TokenizerVersion.v13, THINKS),
    ("mistral-small-latest", TokenizerVersion.v15, THINKS),
]


@pytest.mark.parametrize(("name", "version", "card"), LIBRARY)
@given(data=st.data())
def test_the_providers_own_validator_accepts_every_history(
    name: str, version: TokenizerVersion, card: ModelCard, data: st.DataObject
) -> None:
    history = data.draw(conversations(TARGET))
    told = body_of(history, WEATHER, ToolSpec("näme"), card=card)
    request = ChatCompletionRequest[ChatMessage].model_validate(
        {**told, "messages": [_library_form(message) for message in told["messages"]]}
    )
    get_validator(version, ValidationMode.serving).validate_request(request)


@given(data=st.data())
def test_no_history_makes_the_strict_emulator_complain(data: st.DataObject) -> None:
    told = body_of(data.draw(conversations(TARGET)), WEATHER)
    assert complaints_about(told, "mistral", "mistral-medium-latest", strict=True) == []


def _library_form(message: dict[str, Any]) -> dict[str, Any]:
    """The library writes thoughts as one string, the wire as a list."""
    if not isinstance(message["content"], list):
        return message
    chunks = [
        {"type": "thinking", "thinking": chunk["thinking"][0]["text"]}
        if chunk["type"] == "thinking"
        else chunk
        for chunk in message["content"]
    ]
    return {**message, "content": chunks}


@given(data=st.data())
def test_the_vendors_own_types_take_every_request(data: st.DataObject) -> None:
    models = pytest.importorskip("mistralai.client.models", reason="Mistral's client is not installed")
    told = body_of(
        data.draw(conversations(TARGET)), WEATHER, card=THINKS, options=Options(seed=1, temperature=0)
    )
    parsed = models.ChatCompletionRequest.model_validate(told)
    assert len(parsed.messages) == len(told["messages"])

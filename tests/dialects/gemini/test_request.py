"""Requests of the Gemini wire: what a transcript becomes, and what a foreign request is understood as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.neutral import neutral_block, neutral_message, neutral_messages, neutral_tools
from laws.emulated import complaints_about
from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.card import ModelCard, fit_rules
from segue.dialects.gemini import DIALECT
from segue.errors import TranscriptError
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.steps import Transcript, UserStep
from strategies.histories import conversations

TARGET = DIALECT.rules.at(model="gemini-3.5-flash")
HERE = TARGET.target
WEATHER = ToolSpec(
    "weather", "Tells the weather.", {"type": "object", "properties": {"city": {"type": "string"}}}
)
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


def asked_two(origin: Origin | None = HERE, seal: Seal | None = None) -> Conversation:
    said = model(
        Text("Looking."),
        ToolCall("", "weather", {"city": "Paris"}, native_id="fc_1", seal=seal),
        ToolCall("", "weather", raw='{"city":  "Rome"}', native_id="fc_2"),
        origin=origin,
    )
    history = Conversation(system="Be brief.").append(user("Paris and Rome?"), said)
    first, second = history.messages[-1].calls
    return history.append(
        tool(ToolResult(first.id, "weather", "18C"), ToolResult(second.id, "weather", error="timeout"))
    )


def test_results_follow_their_calls_in_one_content_and_nothing_else_is_in_it() -> None:
    told = body_of(asked_two().append(user("And Oslo?")), WEATHER)
    assert [content["role"] for content in told["contents"]] == ["user", "model", "user", "user"]
    assert told["contents"][2]["parts"] == [
        {"functionResponse": {"name": "weather", "response": {"output": "18C"}, "id": "fc_1"}},
        {"functionResponse": {"name": "weather", "response": {"error": "timeout"}, "id": "fc_2"}},
    ]
    assert told["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


def test_arguments_are_objects_in_the_very_text_they_came_in() -> None:
    transcript = render(asked_two(), None, TARGET)
    encoded = DIALECT.encode_request(transcript, (), Options(), ModelCard())
    assert b'{"city":  "Rome"}' in encoded.body


@pytest.mark.parametrize(
    ("output", "response"),
    [
        ({"temperature": 18, "wind": ["N", 3.5]}, {"temperature": 18, "wind": ["N", 3.5]}),
        ('{"spaced": 1}', {"output": '{"spaced": 1}'}),
        ('{"twice":1,"twice":2}', {"output": '{"twice":1,"twice":2}'}),
        ({"output": 1}, {"output": '{"output":1}'}),
        ([1, 2], {"output": "[1,2]"}),
        ("{torn", {"output": "{torn"}),
        ({}, {}),
    ],
)
def test_an_object_is_given_as_such_where_its_text_survives(output: Any, response: dict[str, Any]) -> None:
    history = Conversation().append(user("Hi"), model(ToolCall("", "f"), origin=HERE))
    history = history.append(tool(ToolResult(history.messages[-1].calls[0].id, "f", output)))
    told = body_of(history)
    assert told["contents"][2]["parts"][0]["functionResponse"]["response"] == response
    again = DIALECT.decode_request({**told, "model": HERE.model})
    assert body_of(Conversation(again.messages)) == told


def test_only_the_first_call_of_a_foreign_step_carries_the_documented_stand_in() -> None:
    parts = body_of(asked_two(origin=None))["contents"][1]["parts"]
    assert parts[1]["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in parts[2]


def test_a_signature_goes_back_on_the_part_it_came_on_also_on_an_empty_text() -> None:
    sealed = Seal(HERE, "c2lnbmVk", "thought")
    said = model(Reasoning("Hm."), Text("Hello."), Text("", sealed), origin=HERE)
    told = body_of(Conversation().append(user("Hi"), said, user("Go on")))
    assert told["contents"][1]["parts"] == [
        {"text": "Hm.", "thought": True},
        {"text": "Hello."},
        {"text": "", "thoughtSignature": "c2lnbmVk"},
    ]


def test_ids_are_left_out_where_the_model_does_not_know_them() -> None:
    told = body_of(asked_two(), card=ModelCard(call_ids=False))
    assert "id" not in told["contents"][1]["parts"][1]["functionCall"]
    assert "id" not in told["contents"][2]["parts"][0]["functionResponse"]


def test_an_image_in_a_result_stays_in_it_or_goes_to_the_user_as_the_model_can() -> None:
    history = Conversation().append(user("Show"), model(ToolCall("", "shot"), origin=HERE))
    history = history.append(
        tool(ToolResult(history.messages[-1].calls[0].id, "shot", "here", media=(PICTURE,)))
    )
    shown = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    assert body_of(history)["contents"][2]["parts"][0]["functionResponse"]["parts"] == [shown]
    older = body_of(history, card=ModelCard(media_in_results=False))["contents"]
    assert "parts" not in older[2]["parts"][0]["functionResponse"]
    assert older[3]["parts"][1] == shown


@pytest.mark.requirement("Scenario: Convert tools to Gemini format", "Scenario: Pass tools to Gemini API")
def test_all_tools_are_declared_in_one_entry() -> None:
    told = body_of(Conversation().append(user("Hi")), WEATHER, ToolSpec("now"))
    assert told["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "weather",
                    "description": "Tells the weather.",
                    "parametersJsonSchema": WEATHER.parameters,
                },
                {"name": "now"},
            ]
        }
    ]
    assert told["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}


def test_where_full_json_schema_is_not_known_the_small_language_is_spoken() -> None:
    strict = ToolSpec(
        "weather",
        parameters={
            "$ref": "#/$defs/a",
            "$defs": {"a": {**(WEATHER.parameters or {}), "additionalProperties": False}},
        },
    )
    told = body_of(Conversation().append(user("Hi")), strict, card=ModelCard(json_schema=False))
    (declared,) = told["tools"][0]["functionDeclarations"]
    assert declared == {"name": "weather", "parameters": WEATHER.parameters}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {"mode": "AUTO"}),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (Named("weather"), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
    ],
)
def test_the_choice_of_tools(choice: Any, expected: dict[str, Any]) -> None:
    told = body_of(Conversation().append(user("Hi")), WEATHER, options=Options(tool_choice=choice))
    assert told["toolConfig"]["functionCallingConfig"] == expected
    assert DIALECT.decode_request(told).options.tool_choice == (choice or "auto")


def test_without_tools_there_is_neither_a_list_nor_a_choice() -> None:
    told = body_of(Conversation().append(user("Hi")), options=Options(tool_choice="auto"))
    assert told.keys() == {"contents"}


def test_options_that_are_zero_are_sent_and_those_not_known_are_named() -> None:
    options = Options(temperature=0, top_k=3, seed=0, max_tokens=9, stop=("x",), repeat_penalty=1.1)
    transcript = render(Conversation().append(user("Hi")), None, TARGET)
    encoded = DIALECT.encode_request(transcript, (), options, ModelCard())
    assert json.loads(encoded.body)["generationConfig"] == {
        "temperature": 0,
        "topK": 3,
        "seed": 0,
        "maxOutputTokens": 9,
        "stopSequences": ["x"],
    }
    assert [(repair.kind, repair.path) for repair in encoded.repairs] == [
        ("option_not_sent", "options.repeat_penalty")
    ]


@pytest.mark.parametrize(
    ("card", "options", "expected"),
    [
        (
            ModelCard(thinking="level"),
            Options(effort="high"),
            {"includeThoughts": True, "thinkingLevel": "high"},
        ),
        (
            ModelCard(thinking="level", efforts=("low", "high")),
            Options(effort="minimal"),
            {"includeThoughts": True, "thinkingLevel": "low"},
        ),
        (
            ModelCard(thinking="level", efforts=("low", "high", "xhigh")),
            Options(effort="max"),
            {"includeThoughts": True, "thinkingLevel": "xhigh"},
        ),
        (
            ModelCard(thinking="level"),
            Options(effort="xhigh"),
            {"includeThoughts": True, "thinkingLevel": "high"},
        ),
        (
            ModelCard(thinking="budget"),
            Options(effort="none"),
            {"includeThoughts": False, "thinkingBudget": 0},
        ),
        (
            ModelCard(thinking="budget"),
            Options(thinking_budget=77),
            {"includeThoughts": True, "thinkingBudget": 77},
        ),
        (ModelCard(), Options(effort="high"), None),
    ],
)
def test_thinking_is_asked_for_in_the_models_own_terms(
    card: ModelCard, options: Options, expected: dict[str, Any] | None
) -> None:
    told = body_of(Conversation().append(user("Hi")), card=card, options=options)
    assert told.get("generationConfig", {}).get("thinkingConfig") == expected


def test_the_highest_level_is_read_and_returns_as_it_came() -> None:
    given = {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {"thinkingConfig": {"thinkingLevel": "XHIGH"}},
    }
    decoded = DIALECT.decode_request(given)
    assert decoded.options.effort == "xhigh"
    card = ModelCard(thinking="level")
    again = body_of(Conversation(decoded.messages), card=card, options=decoded.options)
    assert again["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "XHIGH"


def test_what_has_no_word_of_ours_goes_through_in_its_own() -> None:
    given = {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "safetySettings": [{"category": "X", "threshold": "Y"}],
        "tools": [{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}, "retrievalConfig": {"a": 1}},
        "generationConfig": {
            "temperature": 0.5,
            "responseModalities": ["TEXT"],
            "thinkingConfig": {"thinkingLevel": "HIGH"},
        },
    }
    decoded = DIALECT.decode_request(given)
    assert decoded.options.effort == "high"
    again = body_of(Conversation(decoded.messages), *decoded.tools, options=decoded.options)
    assert again["safetySettings"] == given["safetySettings"]
    assert again["tools"] == given["tools"]
    assert again["toolConfig"] == given["toolConfig"]
    assert again["generationConfig"] == given["generationConfig"]


def test_both_ways_to_spell_a_name_are_understood() -> None:
    decoded = DIALECT.decode_request(
        {
            "model": "models/gemini-x",
            "system_instruction": "Be brief.",
            "contents": [
                {"parts": [{"text": "Look"}, {"inline_data": {"mime_type": "image/png", "data": "aGk="}}]},
                {"role": "model", "parts": [{"function_call": {"name": "f"}, "thought_signature": "c2ln"}]},
                {"role": "function", "parts": [{"function_response": {"name": "f", "response": {"a": 1}}}]},
            ],
            "generation_config": {"max_output_tokens": 5, "thinking_config": {"thinking_budget": 7}},
        }
    )
    origin = Origin("gemini", model="gemini-x")
    assert decoded.system == "Be brief."
    assert neutral_messages(decoded.messages) == (
        Message("user", (Text("Look"), PICTURE)),
        Message("model", (ToolCall("", "f", {}, seal=Seal(origin, "c2ln", "thought")),), origin),
        Message("tool", (ToolResult("", "f", {"a": 1}, complete=True),)),
    )
    assert (decoded.options.max_tokens, decoded.options.thinking_budget) == (5, 7)


@pytest.mark.parametrize("types", [("OBJECT", "STRING"), ("object", "string"), (6, 1)])
def test_the_small_language_for_tools_is_read_as_json_schema(types: tuple[Any, Any]) -> None:
    parameters = {
        "type": types[0],
        "properties": {"city": {"type": types[1], "nullable": True, "min_length": 1}},
        "property_ordering": ["city"],
    }
    decoded = DIALECT.decode_request(
        {"contents": [], "tools": {"function_declarations": [{"name": "f", "parameters": parameters}]}}
    )
    assert neutral_tools(decoded.tools) == (
        ToolSpec(
            "f",
            parameters={
                "type": "object",
                "properties": {"city": {"type": ["string", "null"], "minLength": 1}},
            },
        ),
    )


def test_what_is_broken_is_decoded_as_it_is() -> None:
    decoded = DIALECT.decode_request(
        {
            "contents": [
                {
                    "role": "model",
                    "parts": [{"functionCall": {"name": "f", "id": "a", "args": "not an object"}}],
                },
                {
                    "role": "user",
                    "parts": [
                        {"text": "before"},
                        {"functionResponse": {"name": "g", "id": "b", "response": {"error": "x"}}},
                        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                        {"functionCall": {"name": "h"}},
                    ],
                },
                {"role": "user", "parts": []},
            ]
        }
    )
    call = decoded.messages[0].blocks[0]
    assert isinstance(call, ToolCall)
    assert (call.raw, call.arguments, call.native_id) == ("not an object", None, "a")
    assert [message.speaker for message in decoded.messages] == ["model", "user", "tool", "user", "user"]
    assert neutral_message(decoded.messages[2]).blocks == (
        ToolResult("", "g", error="x", complete=True, media=(PICTURE,), native_id="b"),
    )


def test_an_image_at_a_public_address_is_given_by_that_address() -> None:
    picture = Media("image", "image/jpeg", url="https://example.invalid/cat.jpg")
    body = body_of(Conversation((user(picture, "What is this?"),)))
    file = {"mimeType": "image/jpeg", "fileUri": "https://example.invalid/cat.jpg"}
    assert body["contents"][0]["parts"][0] == {"fileData": file}
    read = DIALECT.decode_request({"model": HERE.model, "contents": body["contents"]})
    assert neutral_block(read.messages[0].blocks[0]) == picture


def test_what_is_googles_own_affair_goes_back_as_it_came_and_to_others_in_words() -> None:
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "x"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"toolCall": {"id": "q"}, "thoughtSignature": "y"},
        {"thoughtSignature": "only"},
    ]
    shown = [
        {"text": "Read"},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://g.invalid/v1beta/files/a"}},
    ]
    contents = [{"role": "user", "parts": shown}, {"role": "model", "parts": parts}]
    decoded = DIALECT.decode_request({"model": HERE.model, "contents": contents})
    assert decoded.messages[0].text == "Read[application/pdf at https://g.invalid/v1beta/files/a]"
    assert decoded.messages[1].text == '\n```python\n1+1\n```\n\n```\n2\n```\n[toolCall: {"id":"q"}]'
    assert neutral_block(decoded.messages[1].blocks[3]) == Text("", Seal(HERE, "only", "thought"))
    again = body_of(Conversation(decoded.messages).append(user("Go on")))["contents"]
    assert again[0] == contents[0]
    assert again[1] == contents[1]
    elsewhere = render(Conversation(decoded.messages), None, DIALECT.rules.at(model="another"))
    assert "executableCode" not in str(elsewhere.steps)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "contents"),
        ({"contents": [7]}, "contents[0]"),
        ({"contents": [{"role": "robot", "parts": []}]}, "contents[0].role"),
        ({"contents": [{"parts": [{"text": 1}]}]}, "contents[0].parts[0].text"),
        ({"contents": [{"parts": [{"functionCall": 1}]}]}, "contents[0].parts[0].functionCall"),
        ({"contents": [], "generationConfig": {"topK": "many"}}, "generationConfig.topK"),
        ({"contents": [], "tools": 3}, "tools"),
    ],
)
def test_a_wrong_type_is_refused_with_the_place_it_stands_at(body: dict[str, Any], path: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        DIALECT.decode_request(body)
    assert caught.value.path == path
    assert caught.value.code == "bad_request_body"


def test_an_instruction_that_was_not_folded_is_refused() -> None:
    transcript = Transcript((UserStep((Text("x"),), instruction=True),), target=HERE)
    with pytest.raises(TranscriptError):
        DIALECT.encode_request(transcript, (), Options(), ModelCard())


def test_its_own_requests_are_recognised_and_others_are_not() -> None:
    assert DIALECT.recognises({"contents": [{"parts": [{"text": "Hi"}]}]}) == 1
    assert DIALECT.recognises({"messages": [{"role": "user", "content": "Hi"}]}) == 0


@given(data=st.data())
def test_no_history_makes_the_strict_emulator_complain(data: st.DataObject) -> None:
    history = data.draw(conversations(TARGET))
    told = body_of(_without_made_up_seals(history), WEATHER)
    assert complaints_about(told, "gemini", "gemini-3.5-flash", strict=True) == []


@given(data=st.data())
def test_the_vendors_own_types_take_every_request(data: st.DataObject) -> None:
    types = pytest.importorskip("google.genai.types", reason="Google's client is not installed")
    told = body_of(_without_made_up_seals(data.draw(conversations(TARGET))), WEATHER)
    for content in told["contents"]:
        for part in content["parts"]:
            # The client's field holds bytes; the documented stand-in is no base64 of anything.
            part.pop("thoughtSignature", None)
        types.Content.model_validate(content)
    for declared in told["tools"]:
        types.Tool.model_validate(declared)
    types.ToolConfig.model_validate(told["toolConfig"])


def _without_made_up_seals(history: Conversation) -> Conversation:
    """A seal that nobody made cannot be opened: here only the shape is judged."""
    messages = tuple(
        Message(
            message.speaker,
            tuple(
                Text(block.text)
                if isinstance(block, Text)
                else Reasoning(block.text)
                if isinstance(block, Reasoning)
                else ToolCall(block.id, block.name, block.arguments, block.raw, block.native_id)
                if isinstance(block, ToolCall)
                else block
                for block in message.blocks
            ),
            message.origin,
            message.instruction,
        )
        for message in history.messages
    )
    return Conversation(messages, history.system)

"""A transcript spelt for Chat Completions and the servers that speak it, and foreign bodies read as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.neutral import neutral_message
from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.conversation.options import Options
from segue.dialects.card import UNKNOWN
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from segue.interop.convert import convert
from segue.transcript.adopt import adopt
from segue.transcript.render import render

CHAT = DIALECTS["openai_chat"]
ASKED = Conversation((), "Be brief.").append(
    user("Weather in Paris and Rome?"),
    model(
        "Checking both.",
        ToolCall("first", "get_weather", {"city": "Paris"}, '{"city":"Paris"}', "call_a1"),
        ToolCall("second", "get_weather", {"city": "Rome"}, '{"city": "Rome"}', "call_a2"),
        origin=Origin("openai_chat"),
    ),
    tool(ToolResult("first", output={"c": 18}), ToolResult("second", error="timeout")),
)


def sent(name: str, conversation: Conversation, options: Options | None = None) -> dict[str, Any]:
    dialect = DIALECTS[name]
    transcript = render(conversation, None, dialect.rules)
    body: dict[str, Any] = json.loads(
        dialect.encode_request(transcript, (), options or Options(model="m"), UNKNOWN).body
    )
    return body


def test_calls_stand_in_one_message_and_results_follow_at_once_in_call_order() -> None:
    assert sent("openai_chat", ASKED) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Paris and Rome?"},
            {
                "role": "assistant",
                "content": "Checking both.",
                "tool_calls": [
                    {
                        "id": "call_a1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
                    },
                    {
                        "id": "call_a2",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "call_a1", "content": '{"c":18}'},
            {"role": "tool", "tool_call_id": "call_a2", "content": "Error: timeout"},
        ],
    }


@pytest.mark.parametrize(
    ("name", "content"), [("openai_chat", None), ("xai", ""), ("deepseek", ""), ("kimi", "absent")]
)
def test_a_message_that_only_calls_is_silent_in_the_way_of_each_server(
    name: str, content: str | None
) -> None:
    silent = Conversation().append(user("?"), model(ToolCall("a", "f")), tool(ToolResult("a", output="1")))
    assert sent(name, silent)["messages"][1].get("content", "absent") == content


def test_kimi_gets_numbered_ids_names_on_results_and_something_for_reasoning() -> None:
    messages = sent("kimi", ASKED)["messages"]
    assert [call["id"] for call in messages[2]["tool_calls"]] == [
        "functions.get_weather:0",
        "functions.get_weather:1",
    ]
    assert messages[2]["reasoning_content"] == " "
    assert [message.get("name") for message in messages[3:]] == ["get_weather", "get_weather"]


@pytest.mark.parametrize(("name", "field"), [("deepseek", "reasoning_content"), ("ollama_v1", "reasoning")])
def test_a_models_own_reasoning_goes_back_in_the_field_it_came_in(name: str, field: str) -> None:
    thought = Conversation().append(
        user("2+2?"), model(Reasoning("easy"), "4", origin=Origin(name)), user("sure?")
    )
    assert sent(name, thought)["messages"][1] == {"role": "assistant", "content": "4", field: "easy"}


def test_openrouter_gets_its_reasoning_details_back_byte_for_byte() -> None:
    details = '[{"type":"reasoning.encrypted","data":"x\\u00e9=","index":0}]'
    origin = Origin("openrouter")
    thought = Conversation().append(
        user("?"), model(Reasoning("", Seal(origin, details)), "4", origin=origin), user("sure?")
    )
    dialect = DIALECTS["openrouter"]
    body = dialect.encode_request(render(thought, None, dialect.rules), (), Options(model="m"), UNKNOWN).body
    assert details.encode() in body


def test_media_is_shown_by_the_user_in_parts() -> None:
    shown = Conversation().append(
        user(
            "Look.",
            Media("image", "image/png", "AAAA"),
            Media("image", url="https://example.com/a.png"),
            Media("document", "application/pdf", "BBBB", name="a.pdf"),
            Media("audio", "audio/mpeg", "CCCC"),
        )
    )
    assert sent("openai_chat", shown)["messages"][0]["content"] == [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"}},
        {"type": "input_audio", "input_audio": {"data": "CCCC", "format": "mp3"}},
    ]


def test_several_texts_are_parts_for_openai_and_one_string_elsewhere() -> None:
    said = Conversation().append(user("one", "two"))
    assert [part["text"] for part in sent("openai_chat", said)["messages"][0]["content"]] == ["one", "two"]
    assert sent("groq", said)["messages"][0]["content"] == "one\n\ntwo"


def test_a_system_note_in_the_middle_keeps_its_place_and_those_in_front_are_one() -> None:
    noted = Conversation((), "Be brief.").append(
        Message("user", (Text("Be kind."),), instruction=True),
        user("hi"),
        Message("user", (Text("Speak French."),), instruction=True),
    )
    assert sent("openai_chat", noted)["messages"] == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "Speak French."},
    ]


def test_a_transcript_made_for_another_target_is_refused() -> None:
    transcript = render(ASKED, None, DIALECTS["kimi"].rules)
    with pytest.raises(TranscriptError, match="rendered for kimi"):
        CHAT.encode_request(transcript, (), Options(model="m"), UNKNOWN)


# Reading


def read(messages: list[dict[str, Any]], name: str = "openai_chat", **fields: Any) -> Any:
    return DIALECTS[name].decode_request({"model": "m", "messages": messages, **fields})


def test_ids_and_arguments_are_kept_raw_and_nothing_is_repaired() -> None:
    decoded = read(
        [
            {"role": "tool", "tool_call_id": "gone", "content": "orphan"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
                    {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"cut'}},
                    {"function": {"name": "g", "arguments": {"already": "parsed"}}},
                ],
            },
        ]
    )
    orphan, called = decoded.messages
    assert orphan == Message("tool", (ToolResult("", output="orphan", complete=True, native_id="gone"),))
    assert called.origin == Origin("openai_chat", model="m")
    assert neutral_message(called).calls == (
        ToolCall("", "f", {"a": 1}, '{"a": 1}', "x"),
        ToolCall("", "f", None, '{"cut', "x"),
        ToolCall("", "g", {"already": "parsed"}, '{"already":"parsed"}'),
    )


def test_what_the_operator_says_first_is_the_system_prompt_and_later_notes_stay_notes() -> None:
    decoded = read(
        [
            {"role": "system", "content": "A"},
            {"role": "developer", "content": [{"type": "text", "text": "B"}]},
            {"role": "user", "content": "hi"},
            {"role": "system", "content": "C"},
        ]
    )
    assert decoded.system == "A\n\nB"
    assert decoded.messages[1:] == (Message("user", (Text("C"),), instruction=True),)


def test_a_request_of_system_messages_only_still_says_something() -> None:
    decoded = read([{"role": "system", "content": "A"}])
    assert (decoded.system, decoded.messages) == ("", (Message("user", (Text("A"),), instruction=True),))


def test_the_deprecated_function_call_is_a_call_without_an_id() -> None:
    decoded = read(
        [
            {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "done"},
        ],
        functions=[{"name": "f", "parameters": {"type": "object"}}],
        function_call={"name": "f"},
    )
    assert neutral_message(decoded.messages[0]).blocks == (ToolCall("", "f", {}, "{}"),)
    assert decoded.messages[1].blocks == (ToolResult("", "f", "done", complete=True),)
    assert [spec.name for spec in decoded.tools] == ["f"]
    adopted = adopt(decoded.messages)
    assert adopted.repairs == ()
    called, answered = adopted.conversation.messages
    assert answered.blocks == (ToolResult(called.calls[0].id, "f", "done", complete=True),)


def test_media_refusals_and_free_text_calls_are_read() -> None:
    decoded = read(
        [
            {
                "role": "user",
                "name": "ann",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                    {"type": "input_audio", "input_audio": {"data": "CCCC", "format": "mp3"}},
                    {"type": "something_new", "x": 1},
                ],
            },
            {"role": "assistant", "refusal": "No.", "content": None},
            {
                "role": "assistant",
                "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}],
            },
        ]
    )
    assert neutral_message(decoded.messages[0]).blocks == (
        Text("ann:"),
        Media("image", "image/png", "AAAA"),
        Media("document", url="file-id:file-1"),
        Media("audio", "audio/mp3", "CCCC"),
        Text('{"type":"something_new","x":1}'),
    )
    assert neutral_message(decoded.messages[1]).blocks == (Text("No."),)
    assert neutral_message(decoded.messages[2]).blocks == (
        ToolCall("", "sh", {"input": "ls"}, native_id="1"),
    )


def test_reasoning_is_read_in_each_of_its_fields() -> None:
    for message in ({"reasoning_content": "hm"}, {"reasoning": "hm"}):
        decoded = read([{"role": "assistant", "content": "4", **message}])
        assert decoded.messages[0].blocks == (Reasoning("hm"), Text("4"))
    details = [{"type": "reasoning.text", "text": "hm", "signature": "s"}]
    decoded = read([{"role": "assistant", "content": "4", "reasoning_details": details}], "openrouter")
    thought = decoded.messages[0].blocks[0]
    assert thought.text == "hm"
    assert json.loads(thought.seal.payload) == details


@pytest.mark.parametrize(
    ("messages", "path"),
    [
        (None, "messages"),
        ([1], "messages[0]"),
        ([{"role": "narrator"}], "messages[0].role"),
        ([{"role": "user", "content": 3}], "messages[0].content"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            "messages[0].content[0].image_url",
        ),
        ([{"role": "user", "content": [{"type": "tool_result"}]}], "messages[0].content[0].type"),
        ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], "messages[0].tool_calls[0].function"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(messages: Any, path: str) -> None:
    with pytest.raises(TranscriptError) as refused:
        CHAT.decode_request({"model": "m", "messages": messages})
    assert (refused.value.code, refused.value.path) == ("bad_request_body", path)


FIELDS = [
    "role",
    "content",
    "type",
    "text",
    "tool_calls",
    "id",
    "function",
    "name",
    "arguments",
    "tools",
    "messages",
    "image_url",
    "url",
    "file",
    "reasoning_details",
    "stop",
    "tool_choice",
    "thinking",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner | st.sampled_from(["user", "assistant", "tool", "text", "image_url", "file"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["messages", "model", "tools", "stop", "tool_choice"]), JSON))
def test_any_json_is_a_request_or_refused_with_a_transcript_error(body: dict[str, Any]) -> None:
    assert 0 <= CHAT.recognises(body) <= 1
    try:
        decoded = CHAT.decode_request(body)
    except TranscriptError as error:
        assert error.path or not body.get("messages")
        return
    adopt(decoded.messages, system=decoded.system)


def test_a_body_tells_its_wire() -> None:
    assert CHAT.recognises({"messages": [{"role": "tool", "tool_call_id": "1", "content": ""}]}) == 0.9
    assert CHAT.recognises({"messages": [{"role": "user", "content": "hi"}]}) == 0.5
    assert CHAT.recognises({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}) == 0.1
    assert CHAT.recognises({"contents": []}) == 0


def test_a_file_that_the_provider_holds_goes_back_to_it() -> None:
    file = {"type": "file", "file": {"file_id": "file-abc"}}
    body = {
        "model": "gpt-4.1",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "?"}, file]}],
    }
    assert convert(body, source="openai_chat", to="openai_chat").request["messages"] == body["messages"]
    told = convert(body, source="openai_chat", to="anthropic", model="claude-sonnet-4-6").request["messages"]
    assert "file-id:file-abc" in str(told)

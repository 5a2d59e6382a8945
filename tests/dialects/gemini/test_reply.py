"""Replies of the Gemini wire, whole and streamed, in and out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    Reply,
    Sealed,
    TextDelta,
    UsageReported,
    fold,
)
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.dialects.gemini import DIALECT
from segue.errors import OverloadError, ProtocolError
from strategies.replies import cuts, in_portions

HERE = Origin("gemini", model="gemini-3.8-flash")
USAGE = {"promptTokenCount": 29, "candidatesTokenCount": 24, "thoughtsTokenCount": 31, "totalTokenCount": 84}
CHUNKS: list[dict[str, Any]] = [
    {
        "candidates": [
            {"content": {"parts": [{"text": "Two ", "thought": True}], "role": "model"}, "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 29, "totalTokenCount": 60, "thoughtsTokenCount": 31},
        "modelVersion": "gemini-3.8-flash",
        "responseId": "r1",
    },
    {"candidates": [{"content": {"parts": [{"text": "lookups.", "thought": True}, {"text": "Look"}]}}]},
    {"candidates": [{"content": {"parts": [{"text": "ing."}, {"text": "", "thoughtSignature": "c2ln"}]}}]},
    {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {
                            "functionCall": {"id": "a", "name": "f", "args": {"n": 1}},
                            "thoughtSignature": "Y2FsbA==",
                        },
                        {"functionCall": {"name": "f", "args": {"n": 2}}},
                    ]
                }
            }
        ]
    },
    {
        "candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": USAGE,
    },
]
MESSAGE = Message(
    "model",
    (
        Reasoning("Two lookups."),
        Text("Looking."),
        Text("", Seal(HERE, "c2ln", "thought")),
        ToolCall("", "f", {"n": 1}, '{"n": 1}', "a", Seal(HERE, "Y2FsbA==", "thought")),
        ToolCall("", "f", {"n": 2}, '{"n": 2}'),
    ),
    HERE,
)


def as_sse(chunks: list[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


def as_array(chunks: list[dict[str, Any]]) -> bytes:
    return b"[" + b"\n,\r\n".join(json.dumps(chunk).encode() for chunk in chunks) + b"\n]\n"


def heard(*portions: bytes) -> list[Event]:
    decoder = DIALECT.new_decoder()
    return [event for portion in portions for event in decoder.feed(portion)] + decoder.close()


@given(sizes=cuts, form=st.sampled_from((as_sse, as_array)))
def test_a_stream_in_either_form_cut_anywhere_is_the_same_reply(sizes: list[int], form: Any) -> None:
    reply = fold(heard(*in_portions(form(CHUNKS), sizes)), HERE)
    assert reply == Reply(
        MESSAGE,
        "tool_calls",
        Usage(input_tokens=29, output_tokens=55, reasoning_tokens=31),
        "r1",
        "gemini-3.8-flash",
        "STOP",
    )


def test_one_byte_at_a_time_is_the_same_reply() -> None:
    for form in (as_sse, as_array):
        data = form(CHUNKS)
        assert fold(heard(*(bytes([byte]) for byte in data)), HERE).message == MESSAGE


@pytest.mark.requirement(
    "Scenario: Detect Gemini function calls", "Scenario: Convert Gemini function calls to OpenAI format"
)
def test_calls_are_told_as_calls_and_end_the_reply_as_such() -> None:
    whole = {
        "candidates": [
            {"content": {"parts": CHUNKS[3]["candidates"][0]["content"]["parts"]}, "finishReason": "STOP"}
        ]
    }
    events = DIALECT.decode_reply(json.dumps(whole).encode())
    assert CallStarted(1, "", "f") in events
    assert events[-1] == Finished("tool_calls", "STOP")


@pytest.mark.requirement("Scenario: Gemini without function calls")
def test_a_reply_without_calls_just_stops() -> None:
    whole = {"candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finishReason": "STOP"}]}
    reply = fold(DIALECT.decode_reply(json.dumps(whole).encode()), HERE)
    assert (reply.message.text, reply.finish, reply.message.calls) == ("Hi.", "stop", ())


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("UNEXPECTED_TOOL_CALL", "error"),
        ("OTHER", "stop"),
        ("A_NEW_ONE", "stop"),
    ],
)
def test_every_end_has_its_word(reason: str, expected: str) -> None:
    events = DIALECT.decode_reply(json.dumps({"candidates": [{"finishReason": reason}]}).encode())
    assert events[-1] == Finished(expected, reason)  # type: ignore[arg-type]


def test_a_blocked_prompt_is_a_reply_without_content() -> None:
    blocked = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 7},
    }
    for events in (DIALECT.decode_reply(json.dumps(blocked).encode()), heard(as_sse([blocked]))):
        reply = fold(events, HERE)
        assert (reply.finish, reply.raw_finish, reply.usage.input_tokens) == (
            "content_filter",
            "PROHIBITED_CONTENT",
            7,
        )


def test_an_error_within_a_stream_is_a_failure_of_its_kind() -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    last = heard(as_sse([CHUNKS[0], error]))[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, OverloadError)


def test_a_stream_without_an_end_fails_but_keeps_what_it_said() -> None:
    events = heard(as_sse(CHUNKS[:3]), b"data: {torn")
    reply = fold(events, HERE)
    assert isinstance(reply.error, ProtocolError)
    assert str(reply.error) == "The reply broke off before its end."
    assert reply.message.text == "Looking."
    assert reply.usage.reasoning_tokens == 31


def test_no_candidates_at_all_is_a_failure() -> None:
    for body in (b"{}", b"", b"[]", b"7", b'{"candidates":[]}'):
        assert isinstance(DIALECT.decode_reply(body)[-1], Failed)
        assert isinstance(heard(body)[-1], Failed)


def test_there_is_one_end_however_often_it_is_told() -> None:
    events = heard(as_sse([CHUNKS[-1], CHUNKS[-1]]))
    assert [type(event) for event in events].count(Finished) == 1


def test_arguments_that_come_value_by_value_become_one_object() -> None:
    def part(call: dict[str, Any]) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}

    events = heard(
        as_sse(
            [
                part({"name": "f", "willContinue": True}),
                part(
                    {
                        "partialArgs": [{"jsonPath": "$.a", "stringValue": "Bos", "willContinue": True}],
                        "willContinue": True,
                    }
                ),
                part({"partialArgs": [{"jsonPath": "$.a", "stringValue": "ton"}], "willContinue": True}),
                part({"partialArgs": [{"jsonPath": "$.b[1].c", "numberValue": 2}], "willContinue": True}),
                part(
                    {
                        "partialArgs": [
                            {"jsonPath": "$.d", "boolValue": False},
                            {"jsonPath": "$.e", "nullValue": "NULL_VALUE"},
                        ],
                        "willContinue": True,
                    }
                ),
                part({}),
                {"candidates": [{"finishReason": "STOP"}]},
            ]
        )
    )
    (call,) = fold(events, HERE).message.calls
    assert call.arguments == {"a": "Boston", "b": [None, {"c": 2}], "d": False, "e": None}


def test_what_google_ran_itself_is_told_in_words_and_kept_as_it_came() -> None:
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2ln"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"text": "One."},
    ]
    whole = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    events = DIALECT.decode_reply(json.dumps(whole).encode())
    reply = fold(events, HERE)
    assert reply.message.blocks[0] == Media("image", "image/png", "aGk=")
    assert reply.message.text == "\n```python\n1\n```\n\n```\n1\n```\nOne."
    told = json.loads(DIALECT.encode_reply(reply))
    assert told["candidates"][0]["content"]["parts"] == parts
    encoder = DIALECT.new_encoder("")
    streamed = b"".join(map(encoder.feed, events)) + encoder.close()
    assert fold(heard(streamed), HERE).message == reply.message


def test_a_whole_reply_comes_back_as_it_was() -> None:
    usage = Usage(input_tokens=9, output_tokens=8, cached_tokens=3, reasoning_tokens=5)
    reply = Reply(MESSAGE, "tool_calls", usage, "r1", "gemini-3.8-flash", "STOP")
    assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE) == reply


def test_a_stream_told_again_is_the_same_stream() -> None:
    encoder = DIALECT.new_encoder("")
    events = heard(as_sse(CHUNKS))
    told = b"".join(encoder.feed(event) for event in events) + encoder.close()
    assert fold(heard(told), HERE) == fold(events, HERE)


def test_text_after_a_call_waits_for_no_call_that_is_not_whole() -> None:
    events: list[Event] = [
        CallStarted(0, "a", "f"),
        ArgumentsDelta(0, '{"n":'),
        TextDelta(1, "meanwhile"),
        ArgumentsDelta(0, "1}"),
        UsageReported(Usage(input_tokens=1, output_tokens=1)),
        Finished("tool_calls"),
    ]
    encoder = DIALECT.new_encoder("m")
    told = b"".join(encoder.feed(event) for event in events) + encoder.close()
    reply = fold(heard(told), HERE)
    assert [call.arguments for call in reply.message.calls] == [{"n": 1}]
    assert reply.message.text == "meanwhile"


def test_calls_are_sent_in_the_order_in_which_they_began() -> None:
    events: list[Event] = [
        CallStarted(0, "c1", "read"),
        Sealed(0, "c2lnbmVk", "thought", "call"),
        CallStarted(1, "c2", "read"),
        ArgumentsDelta(1, "{}"),
        TextDelta(2, "Both."),
        ArgumentsDelta(0, "{}"),
        Finished("tool_calls"),
    ]
    encoder = DIALECT.new_encoder("m")
    stream = b"".join(map(encoder.feed, events)) + encoder.close()
    received = fold(DIALECT.new_decoder().feed(stream), HERE).message.calls
    assert [(call.native_id, call.seal is not None) for call in received] == [("c1", True), ("c2", False)]


def test_seals_of_other_wires_are_not_told() -> None:
    encoder = DIALECT.new_encoder("m")
    told = (
        encoder.feed(Sealed(0, '{"type":"secret"}', "encrypted"))
        + encoder.feed(TextDelta(1, "hi"))
        + encoder.close()
    )
    assert b"secret" not in told
    sealed = Message("model", (Reasoning("x", Seal(HERE, "secret", "signature")),))
    assert b"secret" not in DIALECT.encode_reply(Reply(sealed))


def test_the_vendors_own_types_take_our_replies() -> None:
    types = pytest.importorskip("google.genai.types", reason="Google's client is not installed")
    reply = Reply(MESSAGE, "tool_calls", Usage(input_tokens=9, output_tokens=8), "r1", "m", "STOP")
    parsed = types.GenerateContentResponse.model_validate_json(DIALECT.encode_reply(reply))
    assert [call.args for call in parsed.function_calls] == [{"n": 1}, {"n": 2}]
    encoder = DIALECT.new_encoder("m")
    for event in heard(as_sse(CHUNKS)):
        for frame in encoder.feed(event).split(b"\n\n"):
            if frame:
                types.GenerateContentResponse.model_validate_json(frame.removeprefix(b"data: "))


@pytest.mark.parametrize("reason", ["FINISH_REASON_UNSPECIFIED", 0])
def test_an_unspecified_reason_ends_nothing(reason: str | int) -> None:
    """Some servers write every field, also one that has no value yet."""
    portions = [
        {"candidates": [{"content": {"parts": [{"text": "Hal"}]}, "finishReason": reason}]},
        {"candidates": [{"content": {"parts": [{"text": "lo."}]}, "finishReason": "STOP"}]},
    ]
    decoder = DIALECT.new_decoder()
    body = b"".join(f"data: {json.dumps(portion)}\n\n".encode() for portion in portions)
    reply = fold([*decoder.feed(body), *decoder.close()], HERE)
    assert (reply.message.text, reply.finish, reply.error) == ("Hallo.", "stop", None)

"""Replies of the Mistral wire, whole and streamed, in and out, and its refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dialects.traffic import recordings
from segue.conversation.blocks import Origin, Reasoning, Seal, Text, ToolCall
from segue.conversation.events import Event, Failed, Finished, Reply, fold
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.dialects.openai_chat.mistral import DIALECT
from segue.errors import (
    ContentPolicyError,
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProtocolError,
    ProviderError,
    QuotaError,
    RateLimitError,
)
from strategies.replies import cuts, in_portions

HERE = Origin("mistral", model="m")
USAGE = {
    "prompt_tokens": 9,
    "total_tokens": 14,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 2},
}
COUNTED = Usage(input_tokens=9, output_tokens=5, cached_tokens=2)


def chunk(delta: dict[str, Any], finish: str | None = None, **extra: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    told = {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **extra}
    return b"data: " + json.dumps(told).encode() + b"\n\n"


def heard(*portions: bytes) -> list[Event]:
    decoder = DIALECT.new_decoder()
    return [event for portion in portions for event in decoder.feed(portion)] + decoder.close()


STREAM = b"".join(
    [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Two "}]}]}),
        chunk(
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "lookups."}], "closed": True}
                ]
            }
        ),
        chunk({"content": [{"type": "text", "text": "Look"}]}),
        chunk({"content": "ing."}),
        chunk(
            {
                "content": None,
                "tool_calls": [
                    {"id": "aB3dE5f7G", "function": {"name": "f", "arguments": '{"n": 1}'}},
                    {"id": "hI9jK1m3N", "function": {"name": "f", "arguments": '{"n": 2}'}},
                ],
            },
            "tool_calls",
            usage=USAGE,
        ),
        b"data: [DONE]\n\n",
    ]
)
MESSAGE = Message(
    "model",
    (
        Reasoning("Two lookups."),
        Text("Looking."),
        ToolCall("", "f", {"n": 1}, '{"n": 1}', "aB3dE5f7G"),
        ToolCall("", "f", {"n": 2}, '{"n": 2}', "hI9jK1m3N"),
    ),
    HERE,
)


@given(sizes=cuts)
def test_a_stream_cut_anywhere_is_the_same_reply(sizes: list[int]) -> None:
    reply = fold(heard(*in_portions(STREAM, sizes)), HERE)
    assert reply == Reply(MESSAGE, "tool_calls", COUNTED, "c1", "m", "tool_calls")


def test_calls_in_portions_are_told_apart_by_their_index() -> None:
    def part(index: int, arguments: str, **extra: Any) -> bytes:
        function = {"name": extra.pop("name", ""), "arguments": arguments}
        return chunk({"tool_calls": [{"index": index, "function": function, **extra}]})

    events = heard(
        part(0, "", name="f", id="chatcmpl-tool-1"),
        part(1, '{"b"', name="g", id="chatcmpl-tool-2"),
        part(0, '{"a":1'),
        part(1, ":2}"),
        part(0, "}"),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    )
    assert [(call.name, call.arguments) for call in fold(events, HERE).message.calls] == [
        ("f", {"a": 1}),
        ("g", {"b": 2}),
    ]


def test_calls_that_all_bear_the_same_index_are_still_several() -> None:
    calls = [
        {"id": f"aaaaaaaa{n}", "index": 0, "function": {"name": "f", "arguments": {"n": n}}} for n in range(3)
    ]
    reply = fold(heard(chunk({"tool_calls": calls}, "tool_calls")), HERE)
    assert [call.arguments for call in reply.message.calls] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_whole_reply_gives_the_same_message_as_the_stream() -> None:
    message = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Two lookups."}]},
            {"type": "text", "text": "Looking."},
        ],
        "tool_calls": [
            {"id": "aB3dE5f7G", "function": {"name": "f", "arguments": '{"n": 1}'}},
            {"id": "hI9jK1m3N", "function": {"name": "f", "arguments": '{"n": 2}'}},
        ],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    whole = {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": USAGE}
    assert fold(DIALECT.decode_reply(json.dumps(whole).encode()), HERE) == fold(heard(STREAM), HERE)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("length", "length"), ("model_length", "length"), ("error", "error"), ("new", "stop")],
)
def test_every_end_has_its_word(reason: str, expected: str) -> None:
    assert heard(chunk({"content": "x"}, reason))[-1] == Finished(expected, reason)  # type: ignore[arg-type]


def test_an_error_within_a_stream_is_a_failure_of_its_kind() -> None:
    error = (
        b'data: {"object":"error","message":"Rate limit exceeded","type":"rate_limited","code":"1300"}\n\n'
    )
    last = heard(chunk({"content": "x"}), error)[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, RateLimitError)


def test_a_stream_without_an_end_fails_but_keeps_what_it_said() -> None:
    reply = fold(heard(chunk({"content": "x"}), b"data: {torn\n\n"), HERE)
    assert isinstance(reply.error, ProtocolError)
    assert "a chunk of it could not be read" in str(reply.error)
    assert reply.message.text == "x"


def test_a_goodbye_without_a_reason_is_an_end() -> None:
    assert fold(heard(chunk({"content": "x"}), b"data: [DONE]\n\n"), HERE).finish == "stop"
    assert isinstance(heard(b"data: [DONE]\n\n")[-1], Failed)


def test_what_is_no_reply_is_a_failure() -> None:
    for body in (b"", b"7", b"{}", b'{"choices":[]}', b"<html>"):
        assert isinstance(DIALECT.decode_reply(body)[-1], Failed)


def test_a_reply_told_again_is_the_same_reply() -> None:
    reply = fold(heard(STREAM), HERE)
    assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE) == reply
    encoder = DIALECT.new_encoder("")
    told = b"".join(map(encoder.feed, heard(STREAM))) + encoder.close()
    assert fold(heard(told), HERE) == reply


def test_a_sealed_thought_comes_back_sealed() -> None:
    sealed = Message("model", (Reasoning("Hm", Seal(HERE, "sig")), Text("Hi")), HERE)
    reply = Reply(sealed, "stop", COUNTED, "c1", "m", "stop")
    assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE) == reply


def test_the_vendors_own_types_take_our_replies() -> None:
    models = pytest.importorskip("mistralai.client.models", reason="Mistral's client is not installed")
    reply = fold(heard(STREAM), HERE)
    parsed = models.ChatCompletionResponse.model_validate_json(DIALECT.encode_reply(reply))
    assert [call.id for call in parsed.choices[0].message.tool_calls] == ["aB3dE5f7G", "hI9jK1m3N"]
    encoder = DIALECT.new_encoder("m")
    told = b"".join(map(encoder.feed, heard(STREAM))) + encoder.close()
    *frames, goodbye, _ = told.split(b"\n\n")
    assert goodbye == b"data: [DONE]"
    for frame in frames:
        models.CompletionChunk.model_validate_json(frame.removeprefix(b"data: "))


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (
            400,
            {
                "object": "error",
                "message": "Unexpected role 'user' after role 'tool'",
                "type": "invalid_request_message_order",
                "code": "3230",
            },
            InvalidRequestError,
        ),
        (
            400,
            {
                "object": "error",
                "message": "Prompt contains 99 tokens, too large for model with 9 maximum context length",
                "type": "invalid_request_prompt",
            },
            ContextLengthError,
        ),
        (401, {"detail": "Unauthorized"}, CredentialsError),
        (401, {"message": "Unauthorized", "request_id": "r"}, CredentialsError),
        (
            429,
            {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited"},
            RateLimitError,
        ),
        (
            500,
            {"object": "error", "message": "Service unavailable.", "type": "internal_server_error"},
            OverloadError,
        ),
        (529, {}, OverloadError),
        (402, {}, QuotaError),
    ],
)
def test_each_refusal_is_of_the_class_that_can_be_remedied(
    status: int, body: dict[str, Any], expected: type[ProviderError]
) -> None:
    assert type(DIALECT.decode_error(status, {}, json.dumps(body).encode())) is expected


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_misfit_tells_its_place(wrapped: bool) -> None:
    detail = {
        "detail": [
            {
                "type": "extra_forbidden",
                "loc": ["body", "messages", 6, "name"],
                "msg": "Extra inputs are not permitted",
            }
        ]
    }
    body = {"object": "error", "message": detail, "type": "invalid_request_error"} if wrapped else detail
    error = DIALECT.decode_error(422, {}, json.dumps(body).encode())
    assert isinstance(error, InvalidRequestError)
    assert error.path == "messages[6].name"
    assert "Extra inputs are not permitted" in error.message


@pytest.mark.parametrize(
    "kind",
    [
        ContentPolicyError,
        ContextLengthError,
        CredentialsError,
        InvalidRequestError,
        OverloadError,
        QuotaError,
        RateLimitError,
    ],
)
def test_an_error_told_to_a_client_is_understood_as_the_same(kind: type[ProviderError]) -> None:
    status, body = DIALECT.encode_error(kind("something"))
    assert type(DIALECT.decode_error(status, {}, body)) is kind


def test_every_recorded_reply_is_understood_and_told_again_without_loss() -> None:
    understood = 0
    for recording in recordings("mistral"):
        if recording.refused:
            error = DIALECT.decode_error(recording.status, recording.headers, recording.body)
            assert type(error) is not ProviderError
            continue
        if b'"choices"' not in recording.body:
            continue
        events = heard(recording.body) if recording.stream else DIALECT.decode_reply(recording.body)
        reply = fold(events, HERE)
        assert reply.error is None, recording.name
        assert reply.usage.input_tokens
        assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE) == reply
        encoder = DIALECT.new_encoder(reply.model)
        told = b"".join(map(encoder.feed, events)) + encoder.close()
        assert fold(heard(*(told[n : n + 9] for n in range(0, len(told), 9))), HERE) == reply
        understood += 1
    assert understood > 30

"""Replies of Ollama's own wire, whole and line by line, in and out, and its refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dialects.traffic import recordings
from segue.conversation.blocks import Origin, Reasoning, Text, ToolCall
from segue.conversation.events import Event, Failed, Finished, Reply, fold
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.dialects.openai_chat.ollama import DIALECT
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
from strategies.examples import AT_LEAST_100
from strategies.replies import cuts, in_portions

HERE = Origin("ollama", model="qwen3:8b")


def line(message: dict[str, Any] | None = None, **fields: Any) -> bytes:
    told = {"model": "qwen3:8b", "created_at": "2026-09-20T10:00:00.1Z", "done": False, **fields}
    told["message"] = {"role": "assistant", "content": "", **(message or {})}
    return json.dumps(told).encode() + b"\n"


def call(name: str, arguments: Any, **extra: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"index": 0, "name": name, "arguments": arguments}, **extra}]}


LAST = line(done=True, done_reason="stop", prompt_eval_count=187, eval_count=41)
STREAM = b"".join(
    [
        line({"thinking": "Two "}),
        line({"thinking": "lookups."}),
        line({"content": "Look"}),
        line({"content": "ing."}),
        line(call("f", {"n": 1}, id="call_a1b2c3d4")),
        line(call("f", '{"n": 2}')),
        LAST,
    ]
)
MESSAGE = Message(
    "model",
    (
        Reasoning("Two lookups."),
        Text("Looking."),
        ToolCall("", "f", {"n": 1}, '{"n": 1}', "call_a1b2c3d4"),
        ToolCall("", "f", {"n": 2}, '{"n": 2}'),
    ),
    HERE,
)


def heard(*portions: bytes) -> list[Event]:
    decoder = DIALECT.new_decoder()
    return [event for portion in portions for event in decoder.feed(portion)] + decoder.close()


@AT_LEAST_100
@given(sizes=cuts)
@pytest.mark.requirement("Property 15")
def test_a_stream_cut_anywhere_is_the_same_reply(sizes: list[int]) -> None:
    reply = fold(heard(*in_portions(STREAM, sizes)), HERE)
    usage = Usage(input_tokens=187, output_tokens=41)
    assert reply == Reply(MESSAGE, "tool_calls", usage, "", "qwen3:8b", "stop")


def test_the_last_line_counts_also_without_its_line_feed() -> None:
    assert fold(heard(STREAM.rstrip()), HERE).error is None


@pytest.mark.parametrize(
    ("message", "fields", "expected"),
    [
        ({"content": "x"}, {"done": True, "done_reason": "stop"}, "stop"),
        ({"content": "x"}, {"done": True, "done_reason": "length"}, "length"),
        ({"content": "x"}, {"done": True}, "stop"),
        ({"content": "x"}, {"done": False}, "length"),
        (call("f", {}), {"done": True, "done_reason": "length"}, "tool_calls"),
        (call("f", {}), {"done": False}, "tool_calls"),
        ({}, {"done": True, "done_reason": "load"}, "stop"),
    ],
)
@pytest.mark.requirement("Scenario: Ollama finish_reason detection")
def test_how_a_whole_answer_ended(message: dict[str, Any], fields: dict[str, Any], expected: str) -> None:
    last = DIALECT.decode_reply(line(message, **fields))[-1]
    assert isinstance(last, Finished)
    assert last.reason == expected


def test_an_error_within_a_stream_is_a_failure_of_its_kind() -> None:
    last = heard(
        line({"content": "x"}), b'{"error":"an error was encountered while running the model: EOF"}\n'
    )[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, OverloadError)


def test_a_stream_without_an_end_fails_but_keeps_what_it_said() -> None:
    reply = fold(heard(line({"content": "x"}), b"{torn\n"), HERE)
    assert isinstance(reply.error, ProtocolError)
    assert "a line of it could not be read" in str(reply.error)
    assert reply.message.text == "x"


def test_what_is_no_reply_is_a_failure() -> None:
    for body in (b"", b"7", b"{}", b"<html>"):
        assert isinstance(DIALECT.decode_reply(body)[-1], Failed)
        assert isinstance(heard(body)[-1], Failed)


def test_a_reply_told_again_is_the_same_reply() -> None:
    reply = fold(heard(STREAM), HERE)
    assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE) == reply
    encoder = DIALECT.new_encoder("")
    told = b"".join(map(encoder.feed, heard(STREAM))) + encoder.close()
    assert fold(heard(told), HERE) == reply


def test_the_vendors_own_types_take_our_replies() -> None:
    ollama = pytest.importorskip("ollama", reason="Ollama's client is not installed")
    reply = fold(heard(STREAM), HERE)
    parsed = ollama.ChatResponse.model_validate_json(DIALECT.encode_reply(reply))
    assert [made.function.arguments for made in parsed.message.tool_calls] == [{"n": 1}, {"n": 2}]
    encoder = DIALECT.new_encoder("m")
    told = b"".join(map(encoder.feed, heard(STREAM))) + encoder.close()
    for said in told.splitlines():
        ollama.ChatResponse.model_validate_json(said)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (404, "model 'x' not found", InvalidRequestError),
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools", InvalidRequestError),
        (500, "no user query found in messages", InvalidRequestError),
        (500, 'option "num_ctx" must be of type integer', InvalidRequestError),
        (
            400,
            "the prompt is longer than the context length currently available to the model",
            ContextLengthError,
        ),
        (
            400,
            "request (9 tokens) exceeds the available context size (4 tokens), try increasing it",
            ContextLengthError,
        ),
        (503, "server busy, please try again.  maximum pending requests exceeded", OverloadError),
        (
            500,
            "model runner has unexpectedly stopped, this may be due to resource limitations",
            OverloadError,
        ),
        (401, "unauthorized", CredentialsError),
        (429, "too many requests", RateLimitError),
    ],
)
def test_each_refusal_is_of_the_class_that_can_be_remedied(
    status: int, message: str, expected: type[ProviderError]
) -> None:
    error = DIALECT.decode_error(status, {}, json.dumps({"error": message}).encode())
    assert type(error) is expected
    assert error.message == message


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
    for recording in recordings("ollama"):
        if recording.refused:
            error = DIALECT.decode_error(recording.status, recording.headers, recording.body)
            assert type(error) is not ProviderError
            continue
        if "/api/chat" not in recording.url:
            continue
        events = heard(recording.body) if recording.stream else DIALECT.decode_reply(recording.body)
        reply = fold(events, HERE)
        assert reply.error is None, recording.name
        assert reply.usage.output_tokens
        assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE) == reply
        encoder = DIALECT.new_encoder(reply.model)
        told = b"".join(map(encoder.feed, events)) + encoder.close()
        assert fold(heard(*(told[n : n + 9] for n in range(0, len(told), 9))), HERE) == reply
        assert DIALECT.decode_request(recording.request).messages
        understood += 1
    assert understood > 5

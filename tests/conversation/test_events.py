"""The fold of a reply's events."""

from __future__ import annotations

import pytest

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
    fold,
    parse_arguments,
)
from segue.conversation.usage import Usage
from segue.errors import OverloadError, TransportError

ORIGIN = Origin("anthropic", "anthropic", "https://api.invalid", "model-1")
IMAGE = Media("image", "image/png", "aGVsbG8=")


def test_a_reply_is_its_events_put_together() -> None:
    reply = fold(
        [
            ReplyStarted("msg_1", "model-1-dated"),
            ReasoningDelta(0, "let me "),
            ReasoningDelta(0, "see"),
            Sealed(0, "SEAL"),
            TextDelta(1, "Reading "),
            TextDelta(1, "it."),
            CallStarted(2, "toolu_1", "read"),
            ArgumentsDelta(2, '{"path": '),
            ArgumentsDelta(2, '"a"}'),
            MediaArrived(3, IMAGE),
            UsageReported(Usage(input_tokens=5, output_tokens=1)),
            UsageReported(Usage(output_tokens=9)),
            UsageReported(Usage()),
            Finished("tool_calls", "tool_use"),
        ],
        ORIGIN,
        made_under="fingerprint",
    )
    assert reply.message.blocks == (
        Reasoning("let me see", Seal(ORIGIN, "SEAL", "signature", "fingerprint")),
        Text("Reading it."),
        ToolCall("", "read", {"path": "a"}, '{"path": "a"}', "toolu_1"),
        IMAGE,
    )
    assert reply.message.origin == ORIGIN
    assert (reply.finish, reply.raw_finish, reply.id, reply.model) == (
        "tool_calls",
        "tool_use",
        "msg_1",
        "model-1-dated",
    )
    assert reply.usage == Usage(input_tokens=5, output_tokens=9)
    assert reply.error is None


def test_parallel_calls_may_arrive_interleaved() -> None:
    reply = fold(
        [
            CallStarted(1, "b", "write"),
            CallStarted(0, "a", "read"),
            ArgumentsDelta(0, '{"n":'),
            ArgumentsDelta(1, '{"m":'),
            ArgumentsDelta(0, "0}"),
            ArgumentsDelta(1, "1}"),
        ],
        ORIGIN,
    )
    assert [(call.name, call.arguments) for call in reply.message.calls] == [
        ("write", {"m": 1}),
        ("read", {"n": 0}),
    ]
    assert reply.finish == "tool_calls"


def test_a_name_or_id_that_comes_later_completes_the_call_and_nothing_erases_it() -> None:
    reply = fold([CallStarted(0, "a", ""), CallStarted(0, "", "read"), CallStarted(0, "", "")], ORIGIN)
    assert reply.message.calls == (ToolCall("", "read", {}, "", "a"),)


@pytest.mark.parametrize(("block", "kind"), [("text", Text), ("reasoning", Reasoning), ("call", ToolCall)])
def test_a_seal_that_comes_first_makes_the_block_it_belongs_to(block: str, kind: type) -> None:
    sealed = Sealed(0, "first", "thought", block)  # type: ignore[arg-type]
    (made,) = fold([sealed, Sealed(0, "last", "thought")], ORIGIN).message.blocks
    assert type(made) is kind
    assert getattr(made, "seal") == Seal(ORIGIN, "last", "thought")  # noqa: B009


@pytest.mark.parametrize(
    ("events", "finish"),
    [
        ([TextDelta(0, "hi")], "stop"),
        ([CallStarted(0, "a", "read")], "tool_calls"),
        ([TextDelta(0, "hi"), Finished("length"), Finished("stop")], "length"),
        ([TextDelta(0, "hi"), Finished("stop"), Failed(TransportError("it broke"))], "error"),
        ([], "stop"),
    ],
)
def test_the_end_is_what_was_said_first_about_it_unless_something_failed(
    events: list[Event], finish: str
) -> None:
    assert fold(events, ORIGIN).finish == finish


def test_the_first_failure_is_kept_with_what_was_said_until_then() -> None:
    first = OverloadError("busy")
    reply = fold([TextDelta(0, "half a"), Failed(first), Failed(TransportError("gone"))], ORIGIN)
    assert reply.error is first
    assert reply.message.text == "half a"


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        ('{"a": [1]}', {"a": [1]}),
        ("[1]", None),
        ("null", None),
        ('{"cut": "of', None),
        ('{"a": "\ud800"}', None),
        ("[" * 100_000, None),
    ],
)
def test_arguments_are_an_object_or_nothing(raw: str, parsed: object) -> None:
    assert parse_arguments(raw) == parsed


def test_arguments_that_do_not_parse_are_kept_word_for_word() -> None:
    reply = fold([CallStarted(0, "a", "read"), ArgumentsDelta(0, '{"cut": "of')], ORIGIN)
    (call,) = reply.message.calls
    assert (call.arguments, call.raw) == (None, '{"cut": "of')

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest

from segue.conversation.blocks import Media
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    FinishReason,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import Usage
from segue.errors import RateLimitError, SegueError, TransportError
from segue.providers.plain_events import plain_events


def plain(*events: Event) -> list[dict[str, Any]]:
    async def stream() -> AsyncIterator[Event]:
        for event in events:
            yield event

    async def main() -> list[dict[str, Any]]:
        return [told async for told in plain_events(stream())]

    return asyncio.run(main())


@pytest.mark.requirement("Property 10")
def test_text_calls_and_the_end_are_told_as_plain_records() -> None:
    told = plain(
        ReplyStarted("r", "m"),
        ReasoningDelta(0, "Hm."),
        TextDelta(1, "One "),
        TextDelta(1, "moment."),
        CallStarted(2, "a", "look"),
        CallStarted(3, "", "look"),
        ArgumentsDelta(3, "{}"),
        ArgumentsDelta(2, '{"x":'),
        ArgumentsDelta(2, "1}"),
        MediaArrived(4, Media("image")),
        UsageReported(Usage(3, 4)),
        Finished("tool_calls"),
    )
    assert told == [
        {"type": "reasoning", "value": "Hm."},
        {"type": "text", "value": "One "},
        {"type": "text", "value": "moment."},
        {"type": "usage", "value": {"input_tokens": 3, "output_tokens": 4}},
        {"type": "tool_call", "value": {"id": "a", "name": "look", "args": {"x": 1}}},
        {"type": "tool_call", "value": {"id": "call_1", "name": "look", "args": {}}},
        {"type": "finish", "reason": "tool"},
    ]


def test_arguments_that_cannot_be_parsed_are_neither_dropped_nor_made_up() -> None:
    told = plain(CallStarted(0, "a", "look"), ArgumentsDelta(0, '{"x": '), Finished("tool_calls"))
    assert told[0]["value"] == {"id": "a", "name": "look", "args": None, "raw": '{"x": '}


@pytest.mark.parametrize("reason", get_args(FinishReason))
def test_every_reason_has_its_word(reason: Any) -> None:
    assert plain(Finished(reason)) == [
        {"type": "finish", "reason": "tool" if reason == "tool_calls" else reason}
    ]


def test_a_cancelled_reply_wishes_for_nothing() -> None:
    assert plain(CallStarted(0, "a", "look"), Finished("cancelled")) == [
        {"type": "finish", "reason": "cancelled"}
    ]


@pytest.mark.requirement("Property 16")
@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (RateLimitError("slow down", status=429), "HTTP 429: slow down", "429"),
        (TransportError("nobody there", code="CONNECTION_FAILED"), "nobody there", "CONNECTION_FAILED"),
    ],
)
def test_an_error_is_told_with_its_message_and_code(error: SegueError, message: str, code: str) -> None:
    assert plain(TextDelta(0, "x"), Failed(error))[-1] == {
        "type": "error",
        "error": {"message": message, "code": code},
    }


def test_closing_the_view_closes_the_stream() -> None:
    closed: list[bool] = []

    async def stream() -> AsyncIterator[Event]:
        try:
            while True:
                yield TextDelta(0, "x")
        finally:
            closed.append(True)

    async def main() -> None:
        view = plain_events(stream())
        await anext(view)
        await view.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    assert closed == [True]

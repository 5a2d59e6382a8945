"""A reply while it arrives, as plain records: text, tool_call, finish, error.

A call is one record, when its arguments are complete: parsed, or with the text that could not be parsed. Finish reasons
are those of `segue.conversation.events`, but for `tool`, which is short for `tool_calls`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    UsageReported,
    parse_arguments,
)
from segue.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from segue.errors import SegueError
    from segue.providers.adapter import StreamEvent


class _Call(Struct):
    id: str = ""
    name: str = ""
    pieces: list[str] = []

    def record(self, index: int) -> dict[str, Any]:
        raw = "".join(self.pieces)
        arguments = parse_arguments(raw)
        call: dict[str, Any] = {"id": self.id or f"call_{index}", "name": self.name, "args": arguments}
        if not isinstance(arguments, dict):
            call.update(args=None, raw=raw)
        return {"type": "tool_call", "value": call}


async def plain_events(events: AsyncIterator[StreamEvent]) -> AsyncIterator[dict[str, Any]]:
    """The stream as plain dictionaries. Closing it closes the stream."""
    calls: dict[int, _Call] = {}
    try:
        async for event in events:
            for record in _records(event, calls):
                yield record
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


def _records(event: StreamEvent, calls: dict[int, _Call]) -> Iterator[dict[str, Any]]:
    match event:
        case TextDelta(_, text):
            yield {"type": "text", "value": text}
        case ReasoningDelta(_, text):
            yield {"type": "reasoning", "value": text}
        case CallStarted(index, native_id, name):
            call = calls.setdefault(index, _Call())
            call.id, call.name = native_id or call.id, name or call.name
        case ArgumentsDelta(index, text):
            calls.setdefault(index, _Call()).pieces.append(text)
        case UsageReported(usage):
            yield {
                "type": "usage",
                "value": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
            }
        case Finished(reason):
            if reason != "cancelled":
                yield from (call.record(index) for index, call in enumerate(calls.values()))
            yield {"type": "finish", "reason": "tool" if reason == "tool_calls" else reason}
        case Failed(error):
            yield {"type": "error", "error": plain_error(error)}
        case _:  # the request, seals and media have no place in this view
            return


def plain_error(error: SegueError) -> dict[str, str]:
    """A refusal over HTTP has its status as code; everything else its own code."""
    if isinstance(error, ProviderError) and error.status is not None:
        return {"message": f"HTTP {error.status}: {error.message}", "code": str(error.status)}
    return {"message": error.message, "code": error.code}

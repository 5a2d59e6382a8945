"""Streamed replies of Converse as events (BDR-09, BDR-18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import msgspec

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Failed,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
    parse_arguments,
)
from segue.dialects.converse import wire
from segue.dialects.converse.citations import read_citation
from segue.dialects.converse.errors import error_from
from segue.dialects.converse.opaque_blocks import KIND
from segue.dialects.converse.reply import finished, usage_of
from segue.dialects.streams.amazon_event_stream import BrokenFrameError, EventFrame, EventFrameDecoder
from segue.dialects.streams.garbled_lines import check_encoding, read_garbled, reply_cut_off, reply_garbled
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.events import Event
    from segue.errors import ProviderError

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@final
class ReplyDecoder:
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        self._frames = EventFrameDecoder()
        self._own: dict[int, dict[str, Any]] = {}
        self._own_pieces: dict[int, list[str]] = {}
        """Blocks of the provider's own tools, and their arguments in pieces."""
        self._cited: dict[int, list[Any]] = {}
        self._images: dict[int, str] = {}
        self._arguments: set[int] = set()
        """Calls of which no arguments have come."""
        self._reason: str | None = None
        self._called = False
        self._over = False
        self._readers: dict[str, Callable[[bytes, list[Event]], None]] = {
            "contentBlockDelta": self._read_delta,
            "contentBlockStart": self._read_start,
            "contentBlockStop": self._read_stop,
            "messageStart": self._read_message,
            "messageStop": self._read_end,
            "metadata": self._read_counts,
        }

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        try:
            frames, broken = ([] if self._over else self._frames.feed(data)), False
        except BrokenFrameError as error:
            frames, broken = error.frames, True
        for frame in frames:
            if not self._over:
                self._read(frame, events)
        if broken:
            self._fail(events)
        return events

    def close(self) -> list[Event]:
        if self._over:
            return []
        self._over = True
        if self._reason is not None and self._frames.is_empty:  # all is there but the counts
            return [finished(self._reason, called=self._called)]
        return [Failed(reply_cut_off())]

    def _read(self, frame: EventFrame, events: list[Event]) -> None:
        kind = frame.headers.get(":message-type", "event")
        if kind != "event":
            self._over = True
            events.append(Failed(_error_in(frame, kind)))
            return
        read = self._readers.get(frame.headers.get(":event-type", ""))
        if read is None:
            return  # newer than we are
        try:
            check_encoding(frame.payload)
            read(frame.payload, events)
        except _UNREADABLE:
            if not read_garbled(frame.payload, read, events):
                self._fail(events)

    def _fail(self, events: list[Event]) -> None:
        if not self._over:
            self._over = True
            events.append(Failed(reply_garbled("an event")))

    def _read_message(self, payload: bytes, events: list[Event]) -> None:
        msgspec.json.decode(payload)
        events.append(ReplyStarted())

    def _read_delta(self, payload: bytes, events: list[Event]) -> None:
        chunk = wire.DELTAS.decode(payload)
        index, delta = chunk.content_block_index, chunk.delta
        if delta.text is not None:
            if delta.text:
                events.append(TextDelta(index, delta.text))
        elif delta.tool_use is not None:
            self._read_arguments(index, delta.tool_use.input, events)
        elif delta.reasoning_content is not None:
            thought = delta.reasoning_content
            if thought.text:
                events.append(ReasoningDelta(index, thought.text))
            if thought.signature:
                events.append(Sealed(index, thought.signature))
            if thought.redacted_content is not None:
                events.append(Sealed(index, thought.redacted_content, "redacted"))
        elif delta.citation is not None:
            events.append(Cited(index, read_citation(delta.citation)))
        elif isinstance(delta.image, dict):
            source = delta.image.get("source")
            data = source.get("bytes") if isinstance(source, dict) else None
            self._images[index] = self._images.get(index, "") + (data if isinstance(data, str) else "")
        elif delta.tool_result is not None and index in self._own:
            held = self._own[index].get("toolResult")
            if isinstance(held, dict) and isinstance(delta.tool_result, list):
                held["content"] = [*held.get("content", ()), *delta.tool_result]

    def _read_arguments(self, index: int, more: str, events: list[Event]) -> None:
        if index in self._own:
            self._own_pieces.setdefault(index, []).append(more)
        elif more:
            self._arguments.discard(index)
            events.append(ArgumentsDelta(index, more))

    def _read_start(self, payload: bytes, events: list[Event]) -> None:
        chunk = wire.STARTS.decode(payload)
        index, call = chunk.content_block_index, chunk.start.get("toolUse")
        if isinstance(call, dict) and "type" not in call:
            self._called = True
            self._arguments.add(index)
            events.append(CallStarted(index, _text(call, "toolUseId"), _text(call, "name")))
        elif chunk.start:
            self._own[index] = chunk.start

    def _read_stop(self, payload: bytes, events: list[Event]) -> None:
        index = wire.STOPS.decode(payload).content_block_index
        if index in self._arguments:
            self._arguments.discard(index)
            events.append(ArgumentsDelta(index, "{}"))
        block = self._own.pop(index, None)
        if block is not None and "image" in block and index in self._images:
            shown = {"image": {**block["image"], "source": {"bytes": self._images.pop(index)}}}
            media = wire.read_media(shown)
            if media is not None:
                events.append(MediaArrived(index, media))
        elif block is not None:
            call = block.get("toolUse")
            if isinstance(call, dict):
                given = parse_arguments("".join(self._own_pieces.pop(index, ())))
                block = {"toolUse": {**call, "input": given or {}}}
            events.append(Sealed(index, json_of(block), KIND, "text"))

    def _read_end(self, payload: bytes, events: list[Event]) -> None:
        del events
        self._reason = wire.ENDS.decode(payload).stop_reason

    def _read_counts(self, payload: bytes, events: list[Event]) -> None:
        usage = usage_of(wire.METADATA.decode(payload).usage)
        if usage is not None:
            events.append(UsageReported(usage))
        if self._reason is not None:  # BDR-18: nothing follows
            self._over = True
            events.append(finished(self._reason, called=self._called))


def _error_in(frame: EventFrame, kind: str) -> ProviderError:
    headers = frame.headers
    if kind == "error":
        return error_from(headers.get(":error-code", ""), {"message": headers.get(":error-message", "")})
    try:
        fields = msgspec.json.decode(frame.payload)
    except _UNREADABLE:
        fields = {}
    # What a gateway has no frame for comes in the nearest one, with its type in the payload.
    named = fields.get("__type") if isinstance(fields, dict) else None
    name = named if isinstance(named, str) else headers.get(":exception-type", "")
    return error_from(name[:1].upper() + name[1:], fields if isinstance(fields, dict) else {})


def _text(held: dict[str, Any], name: str) -> str:
    value = held.get(name)
    return value if isinstance(value, str) else ""

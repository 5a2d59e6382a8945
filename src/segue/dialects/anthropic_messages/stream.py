"""Streamed replies of the Messages wire as events: named frames, one content block after another (ANT-70)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import msgspec

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Failed,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
    parse_arguments,
)
from segue.dialects.anthropic_messages import wire
from segue.dialects.anthropic_messages.citations import read_citation, read_citations
from segue.dialects.anthropic_messages.errors import error_from
from segue.dialects.anthropic_messages.reply import finished, usage_of
from segue.dialects.requests.opaque_blocks import KIND
from segue.dialects.streams import sse
from segue.dialects.streams.garbled_lines import (
    UNREADABLE,
    check_encoding,
    is_other_type,
    read_garbled,
    reply_cut_off,
    reply_garbled,
)
from segue.dialects.streams.repeated_chunk import Delta, RepeatedChunkDecoder
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from segue.conversation.events import Event

_HEAD = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
)
_FIELDS: dict[type[Delta], tuple[bytes, bytes]] = {
    TextDelta: (b"text_delta", b"text"),
    ReasoningDelta: (b"thinking_delta", b"thinking"),
    ArgumentsDelta: (b"input_json_delta", b"partial_json"),
}
_TAIL = b"}}\n\n"
_TAIL_LETTERS = b"} \n"
_PADDED_TAILS = frozenset(b"}%b}\n\n" % (b" " * spaces) for spaces in range(32))
"""The provider pads its events with spaces between the two closing braces."""
_MORE = b"content_block_delta"
_USUAL = b'{"type":"content_block_delta"'
_NEAR = 64
"""Within so many bytes, most frames name their type."""
_TYPES = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    }
)
"""Events that say something of the message."""
_decode_text = msgspec.json.Decoder(str).decode
_decode_more = wire.MORE.decode


@final
class ReplyDecoder(RepeatedChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = sse.FrameDecoder()
        self._counts: dict[str, Any] = {}
        self._diagnostics: Any = None
        self._given: dict[int, Any] = {}
        """Arguments in the start of a call, mostly none, until some follow in pieces (ANT-72)."""
        self._own: dict[int, dict[str, Any]] = {}
        self._own_pieces: dict[int, list[str]] = {}
        """Blocks of the provider's own tools, and their arguments in pieces."""
        self._reason: str | None = None
        self._called = False
        self._over = False
        self._closing = False
        self._next_head = b""

    def feed(self, portion: bytes) -> list[Event]:
        rest = portion.removeprefix(self._head)
        text = rest.removesuffix(_TAIL)
        if len(portion) - len(text) != self._around:
            text = rest.rstrip(_TAIL_LETTERS)
            if self._around < 0 or len(rest) == len(portion) or rest[len(text) :] not in _PADDED_TAILS:
                return self._feed(portion)
        try:
            more = _decode_text(text)
        except UNREADABLE:
            events = self._several(text)
            return self._feed(portion) if events is None else events
        return [self._kind(self._index, more)] if more else []

    def _feed(self, portion: bytes) -> list[Event]:
        only = self._frames.sole(portion)
        events = self._read(self._frames.data(portion) if only is None else [only])
        self._expect(events[-1] if events else None)
        return events

    def close(self) -> list[Event]:
        self._closing = True
        events = self._read(self._frames.data(sse.END))
        if self._over:
            return events
        self._over = True
        if self._reason is not None:  # all is there; only the closing event is missing
            events.append(finished(self._reason, called=self._called))
            return events
        events.append(Failed(reply_cut_off()))
        return events

    def _expect(self, last: Event | None) -> None:
        """More of the last block is read at a glance, as it mostly comes: alone, and written like this.

        It takes half the time of reading all of the JSON.
        """
        self._forget()
        if type(last) is TextDelta or type(last) is ReasoningDelta or type(last) is ArgumentsDelta:
            index = last.index
            if type(last) is ArgumentsDelta and (index in self._own or index in self._given):
                return
            if type(last) is not self._kind or index != self._index:
                self._kind, self._index = type(last), index
                self._next_head = _HEAD % (index, *_FIELDS[self._kind])
            if self._frames.fresh:
                self._head, self._tail = self._next_head, _TAIL
                self._around = len(self._head) + len(_TAIL)

    def _read(self, frames: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for data in frames:
            if self._over:
                break
            # To fail to read it would take longer.
            if not data.startswith(_USUAL) and data.find(_MORE, 0, _NEAR) < 0:
                self._read_any(data, events)
                continue
            try:
                check_encoding(data)
                more = _decode_more(data)
            except UNREADABLE:
                self._read_any(data, events)
                continue
            delta = more.delta
            if type(delta) is wire.MoreText:
                if delta.text:
                    events.append(TextDelta(more.index, delta.text))
            elif type(delta) is wire.MoreThought:
                if delta.thinking:
                    events.append(ReasoningDelta(more.index, delta.thinking))
            else:
                self._read_arguments(more.index, delta.partial_json, events)
        return events

    def _read_any(self, data: bytes, events: list[Event]) -> None:
        try:
            check_encoding(data)
            chunk = wire.CHUNKS.decode(data)
        except UNREADABLE:
            if not read_garbled(data, self._read_any, events) and not is_other_type(data, _TYPES):
                self._fail(events)
            return
        if chunk.type == "content_block_delta" and chunk.delta is not None:
            self._read_delta(chunk.index, chunk.delta, events)
        else:
            self._read_other(chunk, events)

    def _fail(self, events: list[Event]) -> None:
        """A frame could not be read. At the end of the stream it was cut."""
        if not (self._over or self._closing):
            self._over = True
            events.append(Failed(reply_garbled("an event")))

    def _read_delta(self, index: int, delta: wire.Delta, events: list[Event]) -> None:
        kind = delta.type
        if kind == "text_delta":
            if delta.text:
                events.append(TextDelta(index, delta.text))
        elif kind == "input_json_delta":
            self._read_arguments(index, delta.partial_json or "", events)
        elif kind == "thinking_delta":
            if delta.thinking:
                events.append(ReasoningDelta(index, delta.thinking))
        elif kind == "signature_delta" and delta.signature:
            events.append(Sealed(index, delta.signature))  # ANT-71: it replaces, so the last one counts
        elif kind == "citations_delta" and delta.citation is not None:
            events.append(Cited(index, read_citation(delta.citation)))

    def _read_arguments(self, index: int, more: str, events: list[Event]) -> None:
        if index in self._own:
            self._own_pieces.setdefault(index, []).append(more)
        elif more:
            self._given.pop(index, None)
            events.append(ArgumentsDelta(index, more))

    def _read_other(self, chunk: wire.Chunk, events: list[Event]) -> None:
        match chunk.type:
            case "message_start":
                message = chunk.message or {}
                events.append(ReplyStarted(_text(message, "id"), _text(message, "model")))
                self._diagnostics = message.get("diagnostics")
                self._count(message.get("usage"), events)
            case "content_block_start":
                self._read_start(chunk.index, chunk.content_block or {}, events)
            case "content_block_stop":
                self._read_stop(chunk.index, events)
            case "message_delta":
                if chunk.delta is not None and chunk.delta.stop_reason:
                    self._reason = chunk.delta.stop_reason
                self._count(chunk.usage, events)
            case "message_stop":
                self._over = True
                events.append(finished(self._reason, called=self._called))
            case "error":
                self._over = True
                error = chunk.error if isinstance(chunk.error, dict) else {"message": str(chunk.error or "")}
                events.append(Failed(error_from(error)))
            case _:  # ping, and what is not known yet (ANT-70)
                return

    def _read_start(self, index: int, block: dict[str, Any], events: list[Event]) -> None:
        match block.get("type"):
            case "text":
                if sent := _text(block, "text"):
                    events.append(TextDelta(index, sent))
                events += [Cited(index, citation) for citation in read_citations(block.get("citations"))]
            case "thinking":
                if thought := _text(block, "thinking"):
                    events.append(ReasoningDelta(index, thought))
                if signature := _text(block, "signature"):
                    events.append(Sealed(index, signature))
            case "redacted_thinking":  # ANT-71: it comes whole
                events.append(Sealed(index, _text(block, "data"), "redacted"))
            case "tool_use":
                self._called = True
                events.append(CallStarted(index, _text(block, "id"), _text(block, "name")))
                self._given[index] = block.get("input") or {}
            case str():
                self._own[index] = block
            case _:
                return

    def _read_stop(self, index: int, events: list[Event]) -> None:
        if index in self._given:
            events.append(ArgumentsDelta(index, json_of(self._given.pop(index))))
        block = self._own.pop(index, None)
        if block is not None:
            given = parse_arguments("".join(self._own_pieces.pop(index, ())))
            whole = {**block, "input": given} if given else block
            events.append(Sealed(index, json_of(whole), KIND, "text"))

    def _count(self, counts: Any, events: list[Event]) -> None:
        """Counts are totals so far: those that are given replace earlier ones, the others stay (ANT-73)."""
        if not isinstance(counts, dict):
            return
        self._counts.update((name, value) for name, value in counts.items() if value is not None)
        usage = usage_of(self._counts, self._diagnostics)
        if usage is not None:
            events.append(UsageReported(usage))


def _text(held: dict[str, Any], name: str) -> str:
    value = held.get(name)
    return value if isinstance(value, str) else ""

"""Streamed replies of the Messages wire, both ways: named events, one content block after another (ANT-70)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
    parse_arguments,
)
from segue.conversation.usage import Usage
from segue.dialects import sse
from segue.dialects.anthropic_messages import wire
from segue.dialects.anthropic_messages.errors import encode_error, error_from
from segue.dialects.anthropic_messages.reply import counts_of, finished, stop_reason, usage_of
from segue.dialects.opaque_blocks import KIND, is_opaque
from segue.errors import ProtocolError
from segue.transcript.media import describe
from segue.transcript.value_text import is_object_text, json_of

if TYPE_CHECKING:
    from segue.conversation.events import Event

_Delta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta
_HEAD = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
)
_FIELDS: dict[type[_Delta], tuple[bytes, bytes]] = {
    TextDelta: (b"text_delta", b"text"),
    ReasoningDelta: (b"thinking_delta", b"thinking"),
    ArgumentsDelta: (b"input_json_delta", b"partial_json"),
}
_decode_more = wire.MORE.decode
_decode_text = wire.TEXT.decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@final
class ReplyDecoder:
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        self._frames = sse.FrameDecoder()
        self._counts: dict[str, Any] = {}
        self._given: dict[int, Any] = {}
        """Arguments in the start of a call, mostly none, until some follow in pieces (ANT-72)."""
        self._own: dict[int, dict[str, Any]] = {}
        self._own_pieces: dict[int, list[str]] = {}
        """Blocks of the provider's own tools, and their arguments in pieces."""
        self._reason: str | None = None
        self._called = False
        self.unread: list[bytes] = []
        self._over = False
        self._head = b""
        """What stands before the text in a portion that continues the last one; empty if none is expected."""
        self._kind: type[_Delta] = TextDelta
        self._index = -1
        self._next_head = b""

    def feed(self, portion: bytes) -> list[Event]:
        rest = portion.removeprefix(self._head)
        if len(rest) < len(portion):
            text = rest.removesuffix(b"}}\n\n")
            try:
                more = _decode_text(text if len(text) < len(rest) else _unpadded(rest))
            except _UNREADABLE:
                pass
            else:
                return [self._kind(self._index, more)] if more else []
        only = self._frames.sole(portion)
        events = self._read(self._frames.data(portion) if only is None else [only])
        self._expect(events[-1] if events else None)
        return events

    def close(self) -> list[Event]:
        events = self._read(self._frames.data(sse.END))
        if self._over:
            return events
        self._over = True
        if self._reason is not None:  # all is there; only the closing event is missing
            events.append(finished(self._reason, called=self._called))
            return events
        unread = f" {len(self.unread)} events of it could not be read." if self.unread else ""
        events.append(Failed(ProtocolError(f"The stream broke off before the reply had ended.{unread}")))
        return events

    def _expect(self, last: Event | None) -> None:
        """More of the last block is read at a glance, as it mostly comes: alone, and written like this.

        It takes half the time of reading all of the JSON.
        """
        self._head = b""
        if type(last) is TextDelta or type(last) is ReasoningDelta or type(last) is ArgumentsDelta:
            index = last.index
            if type(last) is ArgumentsDelta and (index in self._own or index in self._given):
                return
            if type(last) is not self._kind or index != self._index:
                self._kind, self._index = type(last), index
                self._next_head = _HEAD % (index, *_FIELDS[self._kind])
            if self._frames.fresh:
                self._head = self._next_head

    def _read(self, frames: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for data in frames:
            if self._over:
                break
            try:
                more = _decode_more(data)
            except _UNREADABLE:
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
            chunk = wire.CHUNKS.decode(data)
        except _UNREADABLE:
            self.unread.append(data)
            return
        if chunk.type == "content_block_delta" and chunk.delta is not None:
            self._read_delta(chunk.index, chunk.delta, events)
        else:
            self._read_other(chunk, events)

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
        usage = usage_of(self._counts)
        if usage is not None:
            events.append(UsageReported(usage))


def _unpadded(rest: bytes) -> bytes:
    """The text of a delta with spaces between its two closing braces; empty if it ends otherwise."""
    inside, _, end = rest.rpartition(b"}")
    delta = inside.rstrip(b" ")
    return delta[:-1] if end == b"\n\n" and delta[-1:] == b"}" else b""


def _text(held: dict[str, Any], name: str) -> str:
    value = held.get(name)
    return value if isinstance(value, str) else ""


# The other way

_Kind: TypeAlias = Literal["text", "reasoning", "call"]
_EMPTY: dict[_Kind, dict[str, Any]] = {
    "text": {"type": "text", "text": ""},
    "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
}


class _Open:
    """A block on the wire."""

    __slots__ = ("arguments", "index", "kind", "stopped")

    def __init__(self, index: int, kind: _Kind) -> None:
        self.index = index
        self.kind = kind
        self.arguments: list[str] = []
        self.stopped = False


@final
class ReplyEncoder:
    """Events in, the provider's stream out.

    A block ends when the next one begins; only a call whose arguments are not whole yet stays open, so that parallel
    calls may come interleaved. Seals on anything but thoughts have no place on this wire.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._started = ReplyStarted()
        self._begun = False
        self._usage = Usage()
        self._blocks: dict[int, _Open] = {}
        self._finished: Finished | None = None
        self._over = False

    def feed(self, event: Event) -> bytes:
        if self._over:
            return b""
        match event:
            case ReplyStarted():
                self._started = event
                return b""
            case UsageReported(usage):
                self._usage = self._usage.updated(usage)
                return b""
            case Finished():
                self._finished = self._finished or event
                return b""  # sent at the end: counts may still come
            case Failed(error):
                self._over = True
                return self._begin() + sse.encode(encode_error(error)[1], "error")
            case _:
                return self._begin() + self._encode(event)

    def close(self) -> bytes:
        if self._over:
            return b""
        self._over = True
        called = any(block.kind == "call" for block in self._blocks.values())
        ended = self._finished or finished(None, called=called)
        delta = {"stop_reason": stop_reason(ended.reason, ended.raw), "stop_sequence": None}
        return b"".join(
            (
                self._begin(),
                *(self._stop(block) for block in self._blocks.values()),
                _frame("message_delta", delta=delta, usage=counts_of(self._usage)),
                _frame("message_stop"),
            )
        )

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        message: dict[str, Any] = {
            "id": self._started.id,
            "type": "message",
            "role": "assistant",
            "model": self._model or self._started.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": counts_of(self._usage),
        }
        return _frame("message_start", message=message)

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                return self._delta(index, "text", {"type": "text_delta", "text": text})
            case ReasoningDelta(index, text):
                return self._delta(index, "reasoning", {"type": "thinking_delta", "thinking": text})
            case ArgumentsDelta(index, text):
                sent = self._delta(index, "call", {"type": "input_json_delta", "partial_json": text})
                self._blocks[index].arguments.append(text)
                return sent
            case CallStarted(index, native_id, name):
                block = {"type": "tool_use", "id": native_id, "name": name, "input": {}}
                return b"" if index in self._blocks else self._start(index, "call", block)
            case Sealed():
                return self._seal(event)
            case MediaArrived(index, media):
                return self._delta(index, "text", {"type": "text_delta", "text": describe(media).text})
            case _:
                return b""

    def _seal(self, seal: Sealed) -> bytes:
        known = self._blocks.get(seal.index)
        if known is None and seal.block == "text" and is_opaque(seal.payload, seal.kind):
            return self._start(seal.index, "text", msgspec.Raw(seal.payload))
        if (known.kind if known is not None else seal.block) != "reasoning":
            return b""
        if seal.kind == "redacted" and known is None:
            return self._start(seal.index, "reasoning", {"type": "redacted_thinking", "data": seal.payload})
        return self._delta(seal.index, "reasoning", {"type": "signature_delta", "signature": seal.payload})

    def _delta(self, index: int, kind: _Kind, delta: dict[str, Any]) -> bytes:
        started = b""
        if index not in self._blocks:
            empty = _EMPTY.get(kind) or {"type": "tool_use", "id": "", "name": "", "input": {}}
            started = self._start(index, kind, empty)
        return started + _frame("content_block_delta", index=self._blocks[index].index, delta=delta)

    def _start(self, index: int, kind: _Kind, block: dict[str, Any] | msgspec.Raw) -> bytes:
        ended = [self._stop(before) for before in self._blocks.values() if _is_whole(before)]
        made = self._blocks[index] = _Open(len(self._blocks), kind)
        return b"".join((*ended, _frame("content_block_start", index=made.index, content_block=block)))

    def _stop(self, block: _Open) -> bytes:
        if block.stopped:
            return b""
        block.stopped = True
        return _frame("content_block_stop", index=block.index)


def _is_whole(block: _Open) -> bool:
    if block.stopped:
        return False
    return block.kind != "call" or is_object_text("".join(block.arguments))


def _frame(kind: str, **fields: Any) -> bytes:
    return sse.encode(wire.ENCODER.encode({"type": kind, **fields}), kind)

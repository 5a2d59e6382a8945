"""Streamed replies of the Gemini wire, both ways.

They come as server-sent events without a closing event, or as one JSON array that is sent piece by piece (GEM-50).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, final

from msgspec import Raw

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
)
from segue.conversation.usage import Usage
from segue.dialects import sse
from segue.dialects.calls import PendingCall
from segue.dialects.gemini import opaque_parts, wire
from segue.dialects.gemini.errors import encode_error
from segue.dialects.gemini.reply import ReplyReader, counts_of, finish_reason, media_part
from segue.transcript.value_text import arguments_of, is_object_text

if TYPE_CHECKING:
    from segue.conversation.events import Event

_MARKS = re.compile(rb'["{}]')
_IN_TEXT = re.compile(rb'["\\]')


@final
class ReplyDecoder:
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        self._reader = ReplyReader()
        self.unread = self._reader.unread
        self._frames: sse.FrameDecoder | None = None
        self._objects: _ObjectCutter | None = None

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if self._frames is not None:
            # The common portion is one whole frame, and Google ends its lines with CRLF.
            only = self._frames.sole(data[:-4] + sse.END if data[-4:] == b"\r\n\r\n" else data)
            if only is not None:
                self._reader.read(only, events)
                return events
        for found in self._cut(data):
            self._reader.read(found, events)
        return events

    def close(self) -> list[Event]:
        events = self.feed(sse.END)
        self._reader.end(events)
        return events

    def _cut(self, data: bytes) -> list[bytes]:
        if self._frames is not None:
            # With nothing held back, LF means the same.
            if self._frames.fresh:
                data = data.replace(b"\r\n", b"\n")
            return self._frames.data(data)
        if self._objects is None:
            data = data.lstrip(b" \t\r\n\xef\xbb\xbf")
            if not data:
                return []
            if data[:1] not in b"[{":
                self._frames = sse.FrameDecoder()
                return self._frames.data(data)
            self._objects = _ObjectCutter()
        return self._objects.feed(data)


class _ObjectCutter:
    """Cuts the outermost objects out of a JSON array, or out of objects one after another."""

    __slots__ = ("_depth", "_escaped", "_in_text", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def feed(self, data: bytes) -> list[bytes]:
        found: list[bytes] = []
        start = 0 if self._depth else -1
        at = 0
        while at < len(data):
            if self._in_text:
                at = self._through_text(data, at)
                continue
            mark = _MARKS.search(data, at)
            if mark is None:
                break
            at = mark.end()
            if mark[0] == b'"':
                self._in_text = True
            elif mark[0] == b"{":
                if not self._depth:
                    start = at - 1
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    found.append(b"".join((*self._pieces, data[start:at])))
                    self._pieces = []
                    start = -1
        if start >= 0:
            self._pieces.append(data[start:])
        return found

    def _through_text(self, data: bytes, at: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        mark = _IN_TEXT.search(data, at)
        if mark is None:
            return len(data)
        if mark[0] == b"\\":
            self._escaped = True
        else:
            self._in_text = False
        return mark.end()


# The other way


class _Call(PendingCall):
    """A call whose arguments still arrive: on this wire it goes out whole (GEM-52)."""

    __slots__ = ("seal",)

    def __init__(self) -> None:
        super().__init__()
        self.seal = ""

    @property
    def whole(self) -> bool:
        return is_object_text("".join(self.pieces))

    def part(self) -> dict[str, Any]:
        call: dict[str, Any] = {"name": self.name, "args": Raw(arguments_of(self.call())[0])}
        if self.native_id:
            call["id"] = self.native_id
        return _signed({"functionCall": call}, self.seal)


class _Carrier:
    """A seal that arrived before the text of its block, of which there may be none (GEM-20)."""

    __slots__ = ("payload", "thought")
    whole = True

    def __init__(self, payload: str, *, thought: bool) -> None:
        self.payload = payload
        self.thought = thought

    def part(self) -> dict[str, Any]:
        return _signed({"text": "", "thought": True} if self.thought else {"text": ""}, self.payload)


class _Own:
    """A part of Google's own, which also comes as text: the text is dropped here."""

    __slots__ = ("_part",)
    whole = True

    def __init__(self, part: Raw) -> None:
        self._part = part

    def part(self) -> Raw:
        return self._part


@final
class ReplyEncoder:
    """Events in, the provider's stream out, as server-sent events."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = ""
        self._usage = Usage()
        self._waiting: dict[int, _Call | _Carrier | _Own] = {}
        self._called = False
        self._finished: Finished | None = None
        self._over = False

    def feed(self, event: Event) -> bytes:
        if self._over:
            return b""
        match event:
            case TextDelta(index, text):
                return self._send(index, {"text": text})
            case ReasoningDelta(index, text):
                return self._send(index, {"text": text, "thought": True})
            case ArgumentsDelta(index, text):
                self._call(index).pieces.append(text)
            case CallStarted(index):
                self._call(index).start(event)
            case Sealed():
                self._seal(event)
            case MediaArrived(index, media):
                return self._send(index, media_part(media))
            case _:
                return self._note(event)
        return b""

    def close(self) -> bytes:
        if self._over:
            return b""
        self._over = True
        parts = [waiting.part() for waiting in self._waiting.values()]
        ended = self._finished or Finished("tool_calls" if self._called else "stop")
        return self._chunk(parts, finish_reason(ended.reason, ended.raw))

    def _note(self, event: Event) -> bytes:
        match event:
            case ReplyStarted(reply_id, model):
                self._id = reply_id
                self._model = self._model or model
            case UsageReported(usage):
                self._usage = self._usage.updated(usage)
            case Finished():
                self._finished = self._finished or event  # sent at the end: counts may still come
            case Failed(error):
                self._over = True
                return sse.encode(encode_error(error)[1])
            case _:
                pass
        return b""

    def _send(self, index: int, part: dict[str, Any]) -> bytes:
        if not self._waiting:
            return self._chunk([part])
        if type(self._waiting.get(index)) is _Own:
            return b""
        carrier = self._waiting.pop(index, None)
        if type(carrier) is _Carrier:
            part = _signed(part, carrier.payload)
        ready = [held for held, waiting in self._waiting.items() if waiting.whole]
        return self._chunk([*(self._waiting.pop(held).part() for held in ready), part])

    def _call(self, index: int) -> _Call:
        self._called = True
        waiting = self._waiting.get(index)
        if type(waiting) is not _Call:
            waiting = self._waiting[index] = _Call()
        return waiting

    def _seal(self, event: Sealed) -> None:
        own = opaque_parts.opaque_part(event.payload, event.kind)
        if own is not None:
            self._waiting[event.index] = _Own(own)
            return
        if event.kind != "thought":  # seals of other kinds are of other wires
            return
        waiting = self._waiting.get(event.index)
        if type(waiting) is _Call or event.block == "call":
            self._call(event.index).seal = event.payload
        else:
            self._waiting[event.index] = _Carrier(event.payload, thought=event.block == "reasoning")

    def _chunk(self, parts: list[Any], reason: str = "") -> bytes:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        chunk: dict[str, Any] = {"candidates": [candidate]}
        if reason:
            candidate["finishReason"] = reason
            chunk["usageMetadata"] = counts_of(self._usage)
        chunk["modelVersion"] = self._model
        chunk["responseId"] = self._id
        return sse.encode(wire.ENCODER.encode(chunk))


def _signed(part: dict[str, Any], seal: str) -> dict[str, Any]:
    if seal:
        part["thoughtSignature"] = seal
    return part

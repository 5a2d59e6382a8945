"""Streamed replies of the Gemini wire, both ways.

They come as server-sent events without a closing event, or as one JSON array that is sent piece by piece (GEM-50).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, final

from msgspec import Raw, Struct

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Sealed,
    TextDelta,
)
from segue.dialects.gemini import opaque_parts, wire
from segue.dialects.gemini.citations import write_metadata
from segue.dialects.gemini.errors import encode_error
from segue.dialects.gemini.reply import FINISHES, ReplyReader, counts_of, media_part
from segue.dialects.replies.calls import PendingCall, compact_arguments
from segue.dialects.streams import sse
from segue.dialects.streams.chunk_streams import ChunkDecoder, ChunkEncoder
from segue.dialects.streams.chunk_template import MARK, template
from segue.transcript.blocks.value_text import is_object_text

if TYPE_CHECKING:
    from segue.conversation.blocks import Citation
    from segue.conversation.events import Event
    from segue.dialects.streams.chunk_template import ChunkTemplate
    from segue.errors import SegueError


_MARKS = re.compile(rb'["{}]')
_IN_TEXT = re.compile(rb'["\\]')
_BETWEEN = re.compile(rb"[\s,\[\]]*")
(_OPENING,) = b"{"


@final
class ReplyDecoder(ChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        cutter = _Cutter()
        super().__init__(ReplyReader(), cutter.sole, cutter.cut)


class _Cutter:
    """Cuts a stream into chunks, in whichever of both forms it comes."""

    __slots__ = ("_frames", "_objects")

    def __init__(self) -> None:
        self._frames: sse.FrameDecoder | None = None
        self._objects: _ObjectCutter | None = None

    def sole(self, data: bytes) -> bytes | None:
        if self._frames is None:
            return None
        # The common portion is one whole frame, and Google ends its lines with CRLF.
        return self._frames.sole(data[:-4] + sse.END if data[-4:] == b"\r\n\r\n" else data)

    def cut(self, data: bytes) -> list[bytes]:
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
    """Cuts the outermost objects out of a JSON array, or out of objects one after another. What else stands between them is
    returned, too: it belonged to one that was garbled."""

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
            if not self._depth:
                between = _BETWEEN.match(data, at)
                at = between.end() if between is not None else at
                if at < len(data) and data[at] != _OPENING:
                    found.append(data[at:])
                    break
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

    seal: str = ""

    @property
    def whole(self) -> bool:
        return is_object_text("".join(self.pieces))

    def part(self) -> dict[str, Any]:
        call: dict[str, Any] = {"name": self.name, "args": compact_arguments(self.call())}
        if self.native_id:
            call["id"] = self.native_id
        return _signed({"functionCall": call}, self.seal)


class _Carrier(Struct):
    """A seal that arrived before the text of its block, of which there may be none (GEM-20)."""

    payload: str
    thought: bool
    whole: ClassVar = True

    def part(self) -> dict[str, Any]:
        return _signed({"text": "", "thought": True} if self.thought else {"text": ""}, self.payload)


class _Own(Struct):
    """A part of Google's own, which also comes as text: the text is dropped here."""

    own: Raw
    whole: ClassVar = True

    def part(self) -> Raw:
        return self.own


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out, as server-sent events."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._waiting: dict[int, _Call | _Carrier | _Own] = {}
        self._called = False
        self._cited: list[Citation] = []

    def _content(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                sent = self._send(index, {"text": text})
                self._text = self._more({"text": MARK})
                return sent
            case ReasoningDelta(index, text):
                sent = self._send(index, {"text": text, "thought": True})
                self._thought = self._more({"text": MARK, "thought": True})
                return sent
            case ArgumentsDelta(index, text):
                self._call(index).pieces.append(text)
            case CallStarted(index):
                self._call(index).start(event)
            case Sealed():
                self._seal(event)
            case MediaArrived(index, media):
                return self._send(index, media_part(media))
            case Cited(_, citation):  # all of them come with the last chunk
                self._cited.append(citation)
            case _:
                pass
        return b""

    def _more(self, part: dict[str, Any]) -> ChunkTemplate | None:
        """How more of a text is written, if nothing waits that has to be looked at before."""
        return None if self._waiting else template(self._chunk([part]))

    def _wait(self, index: int, waiting: _Call | _Carrier | _Own) -> None:
        self._waiting[index] = waiting
        self._text = self._thought = None

    def _ending(self) -> bytes:
        parts = [waiting.part() for waiting in self._waiting.values()]
        ended = self._finished or Finished("tool_calls" if self._called else "stop")
        return self._chunk(parts, FINISHES.write(ended.reason, ended.raw))

    def _failure(self, error: SegueError) -> bytes:
        return sse.encode(encode_error(error)[1])

    def _send(self, index: int, part: dict[str, Any]) -> bytes:
        if not self._waiting:
            return self._chunk([part])
        if type(self._waiting.get(index)) is _Own:
            return b""
        carrier = self._waiting.pop(index, None)
        if type(carrier) is _Carrier:
            part = _signed(part, carrier.payload)
        return self._chunk([*(self._waiting.pop(held).part() for held in self._ready()), part])

    def _ready(self) -> list[int]:
        """What can be sent: a call only behind all calls that began before it, since the first one has the seal (GEM-21)."""
        ready: list[int] = []
        in_order = True
        for index, waiting in self._waiting.items():
            if waiting.whole and (in_order or type(waiting) is not _Call):
                ready.append(index)
            elif not waiting.whole:
                in_order = False
        return ready

    def _call(self, index: int) -> _Call:
        self._called = True
        waiting = self._waiting.get(index)
        if type(waiting) is not _Call:
            waiting = _Call()
            self._wait(index, waiting)
        return waiting

    def _seal(self, event: Sealed) -> None:
        own = opaque_parts.opaque_part(event.payload, event.kind)
        if own is not None:
            self._wait(event.index, _Own(own))
            return
        if event.kind != "thought":  # seals of other kinds are of other wires
            return
        waiting = self._waiting.get(event.index)
        if type(waiting) is _Call or event.block == "call":
            self._call(event.index).seal = event.payload
        else:
            self._wait(event.index, _Carrier(event.payload, thought=event.block == "reasoning"))

    def _chunk(self, parts: list[Any], reason: str = "") -> bytes:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        chunk: dict[str, Any] = {"candidates": [candidate]}
        if reason:
            candidate |= {"finishReason": reason, **write_metadata(self._cited)}
            chunk["usageMetadata"] = counts_of(self._usage)
        chunk["modelVersion"] = self._model
        chunk["responseId"] = self._id
        return sse.encode(wire.ENCODER.encode(chunk))


def _signed(part: dict[str, Any], seal: str) -> dict[str, Any]:
    if seal:
        part["thoughtSignature"] = seal
    return part

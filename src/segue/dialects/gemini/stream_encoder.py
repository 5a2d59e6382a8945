"""Streamed replies of the Gemini wire as its server writes them: server-sent events without a closing one (GEM-50)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

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
from segue.dialects.calls import PendingCall, compact_arguments
from segue.dialects.chunk_template import MARK, ChunkTemplate, json_text, template
from segue.dialects.gemini import opaque_parts, wire
from segue.dialects.gemini.errors import encode_error
from segue.dialects.gemini.reply import counts_of, finish_reason, media_part
from segue.transcript.value_text import is_object_text

if TYPE_CHECKING:
    from msgspec import Raw

    from segue.conversation.events import Event


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
        call: dict[str, Any] = {"name": self.name, "args": compact_arguments(self.call())}
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
        self._text: ChunkTemplate | None = None
        self._thought: ChunkTemplate | None = None

    def feed(self, event: Event) -> bytes:
        # Nearly all events are more of a text, with nothing that waits.
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            known = self._text if type(event) is TextDelta else self._thought
            if known is not None and not self._waiting:
                return known.before + json_text(event.text) + known.behind
        return self._feed(event) if not self._over else b""

    def template(self, event: TextDelta | ReasoningDelta) -> ChunkTemplate | None:
        if self._waiting:
            return None
        return self._text if type(event) is TextDelta else self._thought

    def _feed(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                self._text = template(self._chunk([{"text": MARK}]))
                return self._send(index, {"text": text})
            case ReasoningDelta(index, text):
                self._thought = template(self._chunk([{"text": MARK, "thought": True}]))
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
                self._text = self._thought = None
            case UsageReported(usage):
                self._usage = self._usage.updated(usage)
            case Finished():
                self._finished = self._finished or event  # sent at the end: counts may still come
            case Failed(error):
                self._over = True
                self._text = self._thought = None
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

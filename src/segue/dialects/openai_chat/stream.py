"""Streamed replies: server-sent chunks in, events out; and events in, chunks out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

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
)
from segue.dialects import sse
from segue.dialects.openai_chat.errors import envelope_of, error_in_reply
from segue.dialects.openai_chat.lenient import decode_chunk, decode_portion
from segue.dialects.openai_chat.reply import counts_of, finish_reason, image_of, read_details
from segue.dialects.openai_chat.stream_state import ReplyReader
from segue.dialects.openai_chat.wire import sealed

if TYPE_CHECKING:
    from segue.conversation.events import Event
    from segue.conversation.usage import Usage
    from segue.dialects.openai_chat.wire import Variant

_ENCODER = msgspec.json.Encoder()
_DONE = b"[DONE]"
_HEAD = 65_536


class ReplyDecoder:
    """CHAT-60: unnamed events, each with a chunk, and at last `[DONE]`."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._frames = sse.FrameDecoder()
        self._reader = ReplyReader(variant)
        self.unread: list[bytes] = []
        self._head: bytes | None = b""
        """What came before the first frame: perhaps no stream at all, but an error as plain JSON."""

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        only = self._frames.sole(data)
        if only is not None and self._read_fast(only, events):
            return events
        frames = self._frames.feed(data)
        if self._head is not None:
            self._head = None if frames else self._head + data[: _HEAD - len(self._head)]
        for frame in frames:
            if frame.event or not self._read_fast(frame.data, events):
                self._read_frame(frame, events)
        return events

    def close(self) -> list[Event]:
        events: list[Event] = []
        for frame in self._frames.close():
            self._head = None
            self._read_frame(frame, events)
        if self._head and self._head.lstrip()[:1] in (b"{", b"["):
            chunk = decode_chunk(self._head)
            if chunk is not None:
                self._reader.read(chunk, events, whole=True)
                self._reader.end(events, proper=True)
        why = f"{len(self.unread)} of its lines could not be read." if self.unread else ""
        self._reader.end(events, proper=False, why=why)
        return events

    def _read_fast(self, data: bytes, events: list[Event]) -> bool:
        """Read a common chunk; whether it was one."""
        if self._reader.introduced:
            portion = decode_portion(data)
            if portion is not None:
                self._reader.read_portion(portion, events)
                return True
        chunk = decode_chunk(data)
        if chunk is None:
            return False
        self._head = None
        self._reader.read(chunk, events)
        return True

    def _read_frame(self, frame: sse.Frame, events: list[Event]) -> None:
        data = frame.data
        chunk = decode_chunk(data)
        if chunk is not None and frame.event != "error":
            self._reader.read(chunk, events)
        elif data.strip() == _DONE:
            self._reader.end(events, proper=True)
        elif frame.event == "error":
            error = chunk.error if chunk is not None and chunk.error else data.decode("utf-8", "replace")
            self._reader.fail(error_in_reply(self._variant, error), events)
        elif data.strip():
            self.unread.append(data)


class ReplyEncoder:
    """Writes what a server on this wire would stream. The end is sent when the stream is closed."""

    def __init__(self, variant: Variant, model: str) -> None:
        self._variant = variant
        self._thoughts = variant.thoughts or "reasoning_content"
        self._id = ""
        self._model = model
        self._spoke = False
        self._calls: dict[int, int] = {}
        self._finished: Finished | None = None
        self._usage: Usage | None = None
        self._failed = False

    def feed(self, event: Event) -> bytes:
        match event:
            case ReplyStarted(reply_id, model):
                self._id, self._model = reply_id, self._model or model
                return self._delta({"content": ""})
            case TextDelta(_, text):
                return self._delta({"content": text})
            case ReasoningDelta(_, text):
                return self._delta({self._thoughts: text})
            case CallStarted() | ArgumentsDelta():
                return self._call(event)
            case Sealed():
                return self._seal(event)
            case MediaArrived(_, media):
                sound = {"audio": {"data": media.data}}
                return self._delta(sound if media.kind == "audio" else {"images": [image_of(media)]})
            case UsageReported() | Finished():
                self._keep(event)
                return b""
            case Failed(error):
                self._failed = True
                return sse.encode(_ENCODER.encode(envelope_of(error)[1]))  # CHAT-64
            case _:
                assert_never(event)

    def _keep(self, event: UsageReported | Finished) -> None:
        if isinstance(event, Finished):
            self._finished = self._finished or event
        else:
            self._usage = (self._usage or event.usage).updated(event.usage)

    def close(self) -> bytes:
        if self._failed or self._finished is None:
            return b""
        reason, raw = self._finished.reason, self._finished.raw
        # A refusal shows only here, when its text was long sent as content.
        portions = [self._delta({}, finish_reason(reason, "" if raw == "refusal" else raw))]
        if self._usage is not None:  # CHAT-63
            portions.append(self._chunk([], counts_of(self._usage)))
        return b"".join((*portions, sse.encode(_DONE)))

    def _call(self, event: CallStarted | ArgumentsDelta) -> bytes:
        piece: dict[str, Any] = {}
        position = self._calls.get(event.index)
        if position is None:
            position = self._calls[event.index] = len(self._calls)
            piece = {"id": f"call_{position}", "type": "function"}
        if isinstance(event, ArgumentsDelta):
            piece["function"] = {"arguments": event.text}
        else:
            piece["id"] = event.native_id or piece.get("id", "")
            piece["function"] = {"name": event.name, "arguments": ""}
        return self._delta({"tool_calls": [{"index": position, **piece}]})

    def _seal(self, event: Sealed) -> bytes:
        if event.block == "reasoning":
            details = read_details(event.payload) if self._variant.details else []
            return self._delta({"reasoning_details": details}) if details else b""
        if event.kind != "thought":
            return b""
        if event.block == "text":
            return self._delta({"extra_content": sealed(event.payload)})
        position = self._calls.get(event.index, 0)
        return self._delta({"tool_calls": [{"index": position, "extra_content": sealed(event.payload)}]})

    def _delta(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        if not self._spoke:
            self._spoke = True
            delta = {"role": "assistant", **delta}  # CHAT-61
        return self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self._model,
            "choices": choices,
            "usage": usage,
        }
        return sse.encode(_ENCODER.encode(chunk))

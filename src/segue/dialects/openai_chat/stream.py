"""Streamed replies: server-sent chunks in, events out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from segue.dialects.openai_chat.errors import error_in_reply
from segue.dialects.openai_chat.lenient import decode_chunk, decode_portion
from segue.dialects.openai_chat.stream_state import ReplyReader
from segue.dialects.streams import sse
from segue.dialects.streams.garbled_lines import read_garbled, reply_garbled
from segue.dialects.streams.repeated_chunk import FrameRun, RepeatedChunkDecoder

if TYPE_CHECKING:
    from segue.conversation.events import Event
    from segue.dialects.openai_chat.rules import Variant

_ENCODER = msgspec.json.Encoder()
_DONE = b"[DONE]"
_HEAD = 65_536


class ReplyDecoder(RepeatedChunkDecoder):
    """CHAT-60: unnamed events, each with a chunk, and at last `[DONE]`."""

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self._variant = variant
        self._frames = sse.FrameDecoder()
        self._reader = ReplyReader(variant)
        self._closing = False
        self._unframed: bytes | None = b""
        """What came before the first frame: perhaps no stream at all, but an error as plain JSON."""

    def _feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        only = self._frames.sole(data)
        if only is not None and self._read_fast(only, events):
            if self._reader.sorted:
                self._learn(data, events)
            return events
        self._forget()
        frames = self._frames.feed(data)
        if self._unframed is not None:
            self._unframed = None if frames else self._unframed + data[: _HEAD - len(self._unframed)]
        known, at, run = 0, 0, FrameRun()
        while at < len(frames):
            frame, known = frames[at], len(events)
            if not frame.event and frame.data != _DONE and self._read_fast(frame.data, events):
                run.begin(frame.data, events[known:] if self._reader.sorted else [])
            else:
                self._read_frame(frame, events)
                run.begin(frame.data, [])
            at += 1
            if repeated := run.read(frames, at, events):
                at, known = at + repeated, len(events) - 1
        if frames and self._frames.fresh and self._reader.sorted:
            self._learn(b"data: %b\n\n" % frames[-1].data, events[known:])
        return events

    def close(self) -> list[Event]:
        events: list[Event] = []
        self._closing = True
        if self._unframed and self._unframed.lstrip()[:1] in (b"{", b"["):
            chunk = decode_chunk(self._unframed)
            if chunk is not None:
                self._reader.read(chunk, events, whole=True)
                self._reader.end(events, proper=True)
        for frame in self._frames.close():
            self._read_frame(frame, events)
        self._reader.end(events, proper=False)
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
        self._unframed = None
        self._reader.read(chunk, events)
        return True

    def _read_frame(self, frame: sse.Frame, events: list[Event]) -> None:
        data = frame.data
        chunk = decode_chunk(data) if data != _DONE else None
        if chunk is not None and frame.event != "error":
            self._reader.read(chunk, events)
        elif data.strip() == _DONE:
            self._reader.end(events, proper=True)
        elif frame.event == "error":
            error = chunk.error if chunk is not None and chunk.error else data.decode("utf-8", "replace")
            self._reader.fail(error_in_reply(self._variant, error), events)
        elif data.strip() and not read_garbled(data, self._read_legible, events):
            self._fail(events)

    def _read_legible(self, data: bytes, events: list[Event]) -> None:
        if not self._read_fast(data, events):
            self._fail(events)

    def _fail(self, events: list[Event]) -> None:
        """A frame could not be read. The last one of a stream was cut; one behind the reason of the end may hold a call, for some
        servers begin with the reason."""
        if not self._closing:
            self._reader.fail(reply_garbled("a chunk"), events)

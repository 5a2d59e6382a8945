"""Streamed replies of the Gemini wire as events.

They come as server-sent events without a closing event, or as one JSON array that is sent piece by piece (GEM-50).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, final

from segue.dialects import sse
from segue.dialects.gemini.reply import ReplyReader
from segue.dialects.repeated_chunk import RepeatedChunkDecoder

if TYPE_CHECKING:
    from segue.conversation.events import Event

_MARKS = re.compile(rb'["{}]')
_IN_TEXT = re.compile(rb'["\\]')


@final
class ReplyDecoder(RepeatedChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = ReplyReader()
        self.unread = self._reader.unread
        self._frames: sse.FrameDecoder | None = None
        self._objects: _ObjectCutter | None = None

    def _feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if self._frames is not None:
            # The common portion is one whole frame, and Google ends its lines with CRLF.
            only = self._frames.sole(data[:-4] + sse.END if data[-4:] == b"\r\n\r\n" else data)
            if only is not None:
                self._reader.read(only, events)
                self._learn(data, events)
                return events
        self._forget()
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

"""Streamed replies of the Mistral wire as events: server-sent events with a closing one (MIS-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from segue.dialects import sse
from segue.dialects.mistral.reply import ReplyReader
from segue.dialects.repeated_chunk import RepeatedChunkDecoder

if TYPE_CHECKING:
    from segue.conversation.events import Event

_DONE = b"[DONE]"


@final
class ReplyDecoder(RepeatedChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = sse.FrameDecoder()
        self._reader = ReplyReader()
        self.unread = self._reader.unread

    def _feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        only = self._frames.sole(data)
        if only is not None and only != _DONE:
            self._reader.read(only, events)
            self._learn(data, events)
            return events
        self._forget()
        for frame in self._frames.data(data):
            self._read(frame, events)
        return events

    def close(self) -> list[Event]:
        events: list[Event] = []
        for frame in self._frames.data(sse.END):
            self._read(frame, events)
        self._reader.end(events, done=False)
        return events

    def _read(self, data: bytes, events: list[Event]) -> None:
        if data == _DONE:
            self._reader.end(events, done=self._reader.answered)
        else:
            self._reader.read(data, events)

"""Streamed replies of Ollama's own wire as events: one JSON object per line (OLL-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from segue.dialects.ndjson import LineDecoder
from segue.dialects.ollama.reply import ReplyReader
from segue.dialects.repeated_chunk import RepeatedChunkDecoder

if TYPE_CHECKING:
    from segue.conversation.events import Event


@final
class ReplyDecoder(RepeatedChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = LineDecoder()
        self._reader = ReplyReader()
        self.unread = self._reader.unread

    def _feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        only = self._lines.sole(data)
        if only is not None:
            self._reader.read(only, events)
            self._learn(data, events)
            return events
        self._forget()
        for line in self._lines.feed(data):
            self._reader.read(line, events)
        return events

    def close(self) -> list[Event]:
        events: list[Event] = []
        for line in self._lines.close():
            self._reader.read(line, events)
        self._reader.end(events)
        return events

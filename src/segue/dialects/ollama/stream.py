"""Streamed replies of Ollama's own wire, both ways: one JSON object per line (OLL-20)."""

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
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import Usage
from segue.dialects.calls import PendingCall
from segue.dialects.ndjson import LineDecoder
from segue.dialects.ollama import wire
from segue.dialects.ollama.errors import encode_error
from segue.dialects.ollama.reply import NEVER, ReplyReader, call_of, last_line
from segue.transcript.media import describe

if TYPE_CHECKING:
    from segue.conversation.events import Event


@final
class ReplyDecoder:
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        self._lines = LineDecoder()
        self._reader = ReplyReader()
        self.unread = self._reader.unread

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        only = self._lines.sole(data)
        if only is not None:
            self._reader.read(only, events)
            return events
        for line in self._lines.feed(data):
            self._reader.read(line, events)
        return events

    def close(self) -> list[Event]:
        events: list[Event] = []
        for line in self._lines.close():
            self._reader.read(line, events)
        self._reader.end(events)
        return events


# The other way


@final
class ReplyEncoder:
    """Events in, the provider's stream out. Calls are sent together, before the last line."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._usage = Usage()
        self._calls: dict[int, PendingCall] = {}
        self._finished: Finished | None = None
        self._over = False

    def feed(self, event: Event) -> bytes:
        if self._over:
            return b""
        match event:
            case TextDelta(_, text):
                return self._line({"role": "assistant", "content": text})
            case ReasoningDelta(_, text):
                return self._line({"role": "assistant", "content": "", "thinking": text})
            case ArgumentsDelta(index, text):
                self._calls.setdefault(index, PendingCall()).pieces.append(text)
            case CallStarted(index):
                self._calls.setdefault(index, PendingCall()).start(event)
            case MediaArrived(_, media):
                return self._line({"role": "assistant", "content": describe(media).text})
            case ReplyStarted(_, model):
                self._model = self._model or model
            case UsageReported(usage):
                self._usage = self._usage.updated(usage)
            case Finished():
                self._finished = self._finished or event  # sent at the end: counts may still come
            case Failed(error):
                self._over = True
                return encode_error(error)[1] + b"\n"
            case _:  # seals have no place on this wire
                pass
        return b""

    def close(self) -> bytes:
        if self._over:
            return b""
        self._over = True
        calls_line = b""
        if self._calls:
            calls = [call_of(call.call(), index) for index, call in enumerate(self._calls.values())]
            calls_line = self._line({"role": "assistant", "content": "", "tool_calls": calls})
        ended = self._finished or Finished("tool_calls" if self._calls else "stop")
        silence = {"role": "assistant", "content": ""}
        line = last_line(self._model, silence, ended.reason, ended.raw, self._usage)
        return calls_line + wire.ENCODER.encode(line) + b"\n"

    def _line(self, message: dict[str, Any]) -> bytes:
        line = {"model": self._model, "created_at": NEVER, "message": message, "done": False}
        return wire.ENCODER.encode(line) + b"\n"

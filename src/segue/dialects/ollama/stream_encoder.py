"""Streamed replies of Ollama's own wire as its server writes them: one JSON object per line (OLL-20)."""

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
from segue.dialects.chunk_template import MARK, ChunkTemplate, json_text, template
from segue.dialects.ollama import wire
from segue.dialects.ollama.errors import encode_error
from segue.dialects.ollama.reply import NEVER, call_of, last_line
from segue.transcript.media import describe

if TYPE_CHECKING:
    from segue.conversation.events import Event


@final
class ReplyEncoder:
    """Events in, the provider's stream out. Calls are sent together, before the last line."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._usage = Usage()
        self._calls: dict[int, PendingCall] = {}
        self._finished: Finished | None = None
        self._over = False
        self._text: ChunkTemplate | None = None
        self._thought: ChunkTemplate | None = None

    def feed(self, event: Event) -> bytes:
        if type(event) is TextDelta or type(event) is ReasoningDelta:  # nearly all events
            known = self._text if type(event) is TextDelta else self._thought
            if known is not None:
                return known.before + json_text(event.text) + known.behind
        return self._feed(event) if not self._over else b""

    def template(self, event: TextDelta | ReasoningDelta) -> ChunkTemplate | None:
        return self._text if type(event) is TextDelta else self._thought

    def _feed(self, event: Event) -> bytes:
        match event:
            case TextDelta(_, text):
                self._text = template(self._line({"role": "assistant", "content": MARK}))
                return self._line({"role": "assistant", "content": text})
            case ReasoningDelta(_, text):
                self._thought = template(self._line({"role": "assistant", "content": "", "thinking": MARK}))
                return self._line({"role": "assistant", "content": "", "thinking": text})
            case ArgumentsDelta(index, text):
                self._calls.setdefault(index, PendingCall()).pieces.append(text)
            case CallStarted(index):
                self._calls.setdefault(index, PendingCall()).start(event)
            case MediaArrived(_, media):
                return self._line({"role": "assistant", "content": describe(media).text})
            case ReplyStarted(_, model):
                self._model = self._model or model
                self._text = self._thought = None
            case UsageReported(usage):
                self._usage = self._usage.updated(usage)
            case Finished():
                self._finished = self._finished or event  # sent at the end: counts may still come
            case Failed(error):
                self._over = True
                self._text = self._thought = None
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

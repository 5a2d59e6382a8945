"""Streamed replies of Ollama's own wire, both ways: one JSON object per line (OLL-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Reply,
    TextDelta,
)
from segue.conversation.message import Message
from segue.dialects.calls import PendingCall
from segue.dialects.chunk_streams import ChunkDecoder, ChunkEncoder
from segue.dialects.chunk_template import MARK, template
from segue.dialects.ndjson import LineDecoder
from segue.dialects.ollama import wire
from segue.dialects.ollama.errors import encode_error
from segue.dialects.ollama.reply import ReplyReader, call_of, last_line, moment_of
from segue.transcript.media import describe

if TYPE_CHECKING:
    from segue.conversation.events import Event
    from segue.errors import SegueError


@final
class ReplyDecoder(ChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        lines = LineDecoder()
        super().__init__(ReplyReader(), lines.sole, lines.feed)


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out. Calls are sent together, before the last line."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._calls: dict[int, PendingCall] = {}

    def _content(self, event: Event) -> bytes:
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
            case _:  # seals have no place on this wire
                pass
        return b""

    def _ending(self) -> bytes:
        calls_line = b""
        if self._calls:
            calls = [call_of(call.call(), index) for index, call in enumerate(self._calls.values())]
            calls_line = self._line({"role": "assistant", "content": "", "tool_calls": calls})
        ended = self._finished or Finished("tool_calls" if self._calls else "stop")
        began = self._started
        reply = Reply(
            Message("model", ()),
            ended.reason,
            self._usage,
            model=self._model,
            raw_finish=ended.raw,
            created=began.created,
            waited=began.waited,
            seconds=ended.seconds,
        )
        line = last_line(reply, {"role": "assistant", "content": ""})
        return calls_line + wire.ENCODER.encode(line) + b"\n"

    def _failure(self, error: SegueError) -> bytes:
        return encode_error(error)[1] + b"\n"

    def _line(self, message: dict[str, Any]) -> bytes:
        line = {
            "model": self._model,
            "created_at": moment_of(self._started.created),
            "message": message,
            "done": False,
        }
        return wire.ENCODER.encode(line) + b"\n"

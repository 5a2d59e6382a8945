"""Streamed replies of the Mistral wire as its server writes them: calls come whole, at the end (MIS-21)."""

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
from segue.dialects.calls import PendingCall
from segue.dialects.chunk_template import MARK, ChunkTemplate, json_text, template
from segue.dialects.mistral import wire
from segue.dialects.mistral.errors import encode_error
from segue.dialects.mistral.reply import call_of, counts_of, finish_reason, thinking_chunk
from segue.transcript.media import describe

if TYPE_CHECKING:
    from segue.conversation.events import Event

_DONE = b"[DONE]"


@final
class ReplyEncoder:
    """Events in, the provider's stream out. Calls are sent together, at the end, as Mistral's own models do."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = ""
        self._usage = Usage()
        self._calls: dict[int, PendingCall] = {}
        self._finished: Finished | None = None
        self._begun = False
        self._over = False
        self._text: ChunkTemplate | None = None

    def feed(self, event: Event) -> bytes:
        if type(event) is TextDelta and self._text is not None:  # nearly all events
            return self._text.before + json_text(event.text) + self._text.behind
        return self._feed(event) if not self._over else b""

    def template(self, event: TextDelta | ReasoningDelta) -> ChunkTemplate | None:
        return self._text if type(event) is TextDelta else None

    def _feed(self, event: Event) -> bytes:
        match event:
            case TextDelta(_, text):
                self._text = template(self._chunk({"content": MARK}))
                return self._content(text)
            case ReasoningDelta(_, text):
                return self._content([thinking_chunk(text)])
            case Sealed(_, payload, "signature", "reasoning"):
                return self._content([thinking_chunk("", payload)])
            case ArgumentsDelta(index, text):
                self._calls.setdefault(index, PendingCall()).pieces.append(text)
            case CallStarted(index):
                self._calls.setdefault(index, PendingCall()).start(event)
            case MediaArrived(_, media):
                return self._content(describe(media).text)
            case _:
                return self._note(event)
        return b""

    def close(self) -> bytes:
        if self._over:
            return b""
        self._over = True
        ended = self._finished or Finished("tool_calls" if self._calls else "stop")
        delta: dict[str, Any] = {"content": ""}
        if self._calls:
            calls = [call_of(call.call(), index) for index, call in enumerate(self._calls.values())]
            delta = {"content": None, "tool_calls": calls}
        last = self._chunk(delta, finish_reason(ended.reason, ended.raw))
        return b"".join((self._begin(), last, sse.encode(_DONE)))

    def _note(self, event: Event) -> bytes:
        match event:
            case ReplyStarted(reply_id, model):
                self._id = reply_id
                self._model = self._model or model
                self._text = None
            case UsageReported(usage):
                self._usage = self._usage.updated(usage)
            case Finished():
                self._finished = self._finished or event  # sent at the end: counts may still come
            case Failed(error):
                self._over = True
                self._text = None
                return self._begin() + sse.encode(encode_error(error)[1])
            case _:
                pass
        return b""

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._chunk({"role": "assistant", "content": ""})

    def _content(self, content: Any) -> bytes:
        return self._begin() + self._chunk({"content": content})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        chunk: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self._model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        if reason is not None:
            chunk["usage"] = counts_of(self._usage)
        return sse.encode(wire.ENCODER.encode(chunk))

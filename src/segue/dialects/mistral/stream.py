"""Streamed replies of the Mistral wire, both ways: server-sent events with a closing one (MIS-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Sealed,
    TextDelta,
)
from segue.dialects import sse
from segue.dialects.calls import PendingCall
from segue.dialects.chunk_streams import ChunkDecoder, ChunkEncoder
from segue.dialects.chunk_template import MARK, template
from segue.dialects.citations import natives
from segue.dialects.mistral import wire
from segue.dialects.mistral.errors import encode_error
from segue.dialects.mistral.reply import DONE, FINISHES, ReplyReader, call_of, counts_of, thinking_chunk
from segue.dialects.mistral.rules import NAME
from segue.transcript.media import describe

if TYPE_CHECKING:
    from segue.conversation.blocks import Citation
    from segue.conversation.events import Event
    from segue.errors import SegueError


def error_frame(error: SegueError, *, reply_id: str = "", model: str = "") -> bytes:
    """An error in the midst of a stream: the envelope, in a chunk that ends with it. Mistral's SDK and others read nothing
    but chunks there, and one that is none would hide what went wrong (MIS-23)."""
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    envelope = wire.ENCODER.encode({"id": reply_id, "model": model, "choices": [choice]}).removesuffix(b"}")
    return sse.encode(envelope + b"," + encode_error(error)[1].removeprefix(b"{"))


@final
class ReplyDecoder(ChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        frames = sse.FrameDecoder()
        super().__init__(ReplyReader(), frames.sole, frames.data)


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out. Calls come whole, at the end, as Mistral's own models send them (MIS-21)."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._calls: dict[int, PendingCall] = {}
        self._begun = False
        self._referred = -1
        """The text that a reference has taken the place of."""

    def _content(self, event: Event) -> bytes:
        match event:
            case TextDelta(index) if index == self._referred:
                return b""
            case TextDelta(_, text):
                self._text = template(self._chunk({"content": MARK}))
                return self._said(text)
            case ReasoningDelta(_, text):
                return self._said([thinking_chunk(text)])
            case Sealed(_, payload, "signature", "reasoning"):
                return self._said([thinking_chunk("", payload)])
            case ArgumentsDelta(index, text):
                self._calls.setdefault(index, PendingCall()).pieces.append(text)
            case CallStarted(index):
                self._calls.setdefault(index, PendingCall()).start(event)
            case MediaArrived(_, media):
                return self._said(describe(media).text)
            case Cited(index, citation):
                return self._cite(index, citation)
            case _:
                pass
        return b""

    def _cite(self, index: int, citation: Citation) -> bytes:
        own = natives([citation], NAME)
        if any("reference_ids" in chunk for chunk in own):
            self._referred, self._text = index, None
        return self._said(own) if own else b""

    def _ending(self) -> bytes:
        ended = self._finished or Finished("tool_calls" if self._calls else "stop")
        delta: dict[str, Any] = {"content": ""}
        if self._calls:
            calls = [call_of(call.call(), index) for index, call in enumerate(self._calls.values())]
            delta = {"content": None, "tool_calls": calls}
        last = self._chunk(delta, FINISHES.write(ended.reason, ended.raw))
        return b"".join((self._begin(), last, sse.encode(DONE)))

    def _failure(self, error: SegueError) -> bytes:
        return self._begin() + error_frame(error, reply_id=self._id, model=self._model)

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._chunk({"role": "assistant", "content": ""})

    def _said(self, content: Any) -> bytes:
        return self._begin() + self._chunk({"content": content})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        chunk: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": int(self._started.created),
            "model": self._model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        if reason is not None:
            chunk["usage"] = counts_of(self._usage)
        return sse.encode(wire.ENCODER.encode(chunk))

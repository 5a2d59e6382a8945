"""Streamed replies as a server of the Chat wire writes them (CHAT-60 to CHAT-64)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import msgspec

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    MediaArrived,
    ReasoningDelta,
    Sealed,
    TextDelta,
)
from segue.conversation.usage import Usage
from segue.dialects.openai_chat.citations import annotation_of, beside_choices
from segue.dialects.openai_chat.errors import envelope_of
from segue.dialects.openai_chat.reply import counts_of, finish_reason, image_of, read_details
from segue.dialects.openai_chat.wire import sealed
from segue.dialects.streams import sse
from segue.dialects.streams.chunk_streams import ChunkEncoder
from segue.dialects.streams.chunk_template import MARK, template

if TYPE_CHECKING:
    from segue.conversation.events import Event
    from segue.dialects.openai_chat.rules import Variant
    from segue.errors import SegueError

_ENCODER = msgspec.json.Encoder()
_DONE = b"[DONE]"


@final
class ReplyEncoder(ChunkEncoder):
    """Writes what a server on this wire would stream. The end is sent when the stream is closed."""

    def __init__(self, variant: Variant, model: str) -> None:
        super().__init__(model)
        self._variant = variant
        self._thoughts = variant.thoughts or "reasoning_content"
        self._spoke = False
        self._first = -1
        """The index of the first text: only there the place of a citation is that in the whole message."""
        self._beside: dict[str, Any] = {}
        self._calls: dict[int, int] = {}

    def _opening(self) -> bytes:
        return self._delta({"content": ""})

    def _content(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                self._first = index if self._first < 0 else self._first
                sent = self._delta({"content": text})
                self._text = template(self._delta({"content": MARK}))
                return sent
            case ReasoningDelta(_, text):
                sent = self._delta({self._thoughts: text})
                self._thought = template(self._delta({self._thoughts: MARK}))
                return sent
            case CallStarted() | ArgumentsDelta():
                return self._call(event)
            case Sealed():
                return self._seal(event)
            case Cited():
                return self._cite(event)
            case MediaArrived(_, media):
                sound = {"audio": {"data": media.data}}
                return self._delta(sound if media.kind == "audio" else {"images": [image_of(media)]})
            case _:
                return b""

    def _failure(self, error: SegueError) -> bytes:
        return sse.encode(_ENCODER.encode(envelope_of(error)[1]))  # CHAT-64

    def _ending(self) -> bytes:
        if self._finished is None:
            return b""
        reason, raw = self._finished.reason, self._finished.raw
        # A refusal shows only here, when its text was long sent as content.
        portions = [
            self._delta({}, finish_reason(reason, "" if raw == "refusal" else raw), beside=self._beside)
        ]
        if self._usage != Usage():  # CHAT-63
            portions.append(self._chunk([], counts_of(self._usage)))
        return b"".join((*portions, sse.encode(_DONE)))

    def _call(self, event: CallStarted | ArgumentsDelta) -> bytes:
        piece: dict[str, Any] = {}
        position = self._calls.get(event.index)
        if position is None:
            position = self._calls[event.index] = len(self._calls)
            piece = {"id": "", "type": "function"}
        if isinstance(event, ArgumentsDelta):
            piece["function"] = {"arguments": event.text}
        else:
            piece["id"] = event.native_id
            piece["function"] = {"name": event.name, "arguments": ""}
        sent = self._delta({"tool_calls": [{"index": position, **piece}]})
        more = {"index": position, "function": {"arguments": MARK}}
        self._arguments[event.index] = template(self._delta({"tool_calls": [more]}))
        return sent

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

    def _cite(self, event: Cited) -> bytes:
        citation, name = event.citation, self._variant.name
        self._beside |= beside_choices([citation], name)
        start = citation.start if event.index == self._first else None
        annotations = annotation_of(
            citation, name, start or 0, (citation.end or 0) if start is not None else 0
        )
        return self._delta({"annotations": annotations}) if annotations else b""

    def _delta(
        self, delta: dict[str, Any], finish: str | None = None, beside: dict[str, Any] | None = None
    ) -> bytes:
        if not self._spoke:
            self._spoke = True
            delta = {"role": "assistant", **delta}  # CHAT-61
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._chunk([choice], beside=beside)

    def _chunk(
        self,
        choices: list[dict[str, Any]],
        usage: dict[str, Any] | None = None,
        beside: dict[str, Any] | None = None,
    ) -> bytes:
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": int(self._started.created),
            "model": self._model,
            "choices": choices,
            "usage": usage,
            **(beside or {}),
        }
        return sse.encode(_ENCODER.encode(chunk))

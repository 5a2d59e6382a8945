"""Streamed replies of the Interactions wire as its server writes them: steps that grow, and a final state (INT-09)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

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
from segue.dialects.gemini_interactions import wire
from segue.dialects.gemini_interactions.citations import annotation_of, is_written
from segue.dialects.gemini_interactions.errors import error_object
from segue.dialects.gemini_interactions.read_steps import write_thought
from segue.dialects.gemini_interactions.reply_encoder import interaction_object, status_of, text_step
from segue.dialects.replies.calls import PendingCall, compact_arguments
from segue.dialects.requests.extra_fields import as_fields
from segue.dialects.requests.opaque_blocks import is_opaque
from segue.dialects.streams import sse
from segue.dialects.streams.chunk_streams import ChunkEncoder
from segue.dialects.streams.chunk_template import ChunkTemplate, json_text
from segue.transcript.blocks.media import describe
from segue.transcript.blocks.value_text import is_object_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.blocks import Citation, Media
    from segue.conversation.events import Event
    from segue.errors import SegueError

_Kind: TypeAlias = Literal["text", "reasoning", "call", "shown", "kept"]
_HEAD = b'event: step.delta\ndata: {"event_type":"step.delta","index":%d,"delta":{"type":"text","text":'
_THOUGHT_HEAD = (
    b'event: step.delta\ndata: {"event_type":"step.delta","index":%d,"delta":{"type":"thought_summary",'
    b'"content":{"type":"text","text":'
)
_TAIL = b'},"event_id":"%d"}\n\n'
_THOUGHT_TAIL = b'}},"event_id":"%d"}\n\n'


class _Step(Struct):
    """A step on the wire."""

    kind: _Kind
    index: int
    started: Any
    """The step as it begins."""
    pieces: list[str] = []
    cited: list[dict[str, Any]] = []
    signature: str = ""
    call: PendingCall | None = None
    whole: Any = None
    """The step as it is, if it comes whole."""
    closed: bool = False

    @property
    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def state(self) -> Any:
        match self.kind:
            case "text":
                return text_step(self.text, self.cited)
            case "reasoning":
                return write_thought(self.text, self.signature)
            case "call" if self.call is not None:
                called = PendingCall(self.call.native_id, self.call.name, self.pieces).call()
                return wire.FunctionCall(called.native_id, called.name, compact_arguments(called))
            case _:
                return self.whole


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out.

    A step stops when the next one starts; only a call whose arguments are not whole yet stays open, so that parallel calls may
    come interleaved.
    """

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._begun = False
        self._steps: dict[int, _Step] = {}
        self._growing: dict[int, _Step] = {}
        self._made = 0
        self._numbers: Iterator[int] = count()

    def feed(self, event: Event) -> bytes:
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            growing = self._growing.get(event.index)  # nearly all events: more of a step that is known
            if growing is not None:
                growing.pieces.append(event.text)
                return self._more(growing, event.text)
        return self._feed(event) if not self._over else b""

    def template(self, event: TextDelta | ReasoningDelta) -> ChunkTemplate | None:
        step = self._growing.get(event.index)
        if step is None:
            return None
        head, tail = (_HEAD, _TAIL) if step.kind == "text" else (_THOUGHT_HEAD, _THOUGHT_TAIL)
        return ChunkTemplate(head % step.index, tails=map(tail.__mod__, self._numbers), pieces=step.pieces)

    def _opening(self) -> bytes:
        return self._begin()

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        state = interaction_object(
            self._id,
            self._model,
            status="in_progress",
            created=self._started.created,
            repeated=self._started.repeated,
        )
        return self._frame("interaction.created", interaction=state) + self._frame(
            "interaction.status_update", interaction_id=self._id, status="in_progress"
        )

    def _ending(self) -> bytes:
        self._growing.clear()
        called = any(step.kind == "call" for step in self._steps.values())
        last = self._finished or Finished("tool_calls" if called else "stop")
        begun = self._begin()
        closed = [self._close(step) for step in self._steps.values()]
        state = interaction_object(
            self._id,
            self._model,
            created=self._started.created,
            steps=[step.state() for step in sorted(self._steps.values(), key=lambda step: step.index)],
            usage=self._usage,
            repeated=self._started.repeated,
            **status_of(last.reason, last.raw),
        )
        completed = self._frame("interaction.completed", interaction=state)
        return b"".join((begun, *closed, completed, sse.encode(b"[DONE]", "done")))

    def _failure(self, error: SegueError) -> bytes:
        self._growing.clear()
        return self._begin() + self._frame("error", error=error_object(error)[1])

    def _content(self, event: Event) -> bytes:
        return self._begin() + self._encode(event)

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                return self._delta(index, "text", text)
            case ReasoningDelta(index, text):
                return self._delta(index, "reasoning", text)
            case ArgumentsDelta(index, text):
                return self._argue(index, text)
            case CallStarted(index):
                return self._call(index, event)
            case Sealed():
                return self._seal(event)
            case MediaArrived(index, media):
                return self._show(index, media)
            case Cited(index, citation) if is_written(citation):
                return self._cite(index, citation)
            case _:
                return b""

    def _show(self, index: int, media: Media) -> bytes:
        if not media.data:
            return self._delta(index, "text", describe(media).text)
        step = {"type": "model_output", "content": [wire.media_content(media)]}
        return self._whole(index, "shown", step)

    def _delta(self, index: int, kind: _Kind, text: str) -> bytes:
        known = self._steps.get(index)
        if known is not None and known.kind == "kept":
            return b""  # the words for others
        begun = {"type": "model_output"} if kind == "text" else {"type": "thought"}
        opened = self._open(index, kind, begun)
        step = self._steps[index]
        step.pieces.append(text)
        self._growing[index] = step
        return opened + self._more(step, text)

    def _more(self, step: _Step, text: str) -> bytes:
        head, tail = (_HEAD, _TAIL) if step.kind == "text" else (_THOUGHT_HEAD, _THOUGHT_TAIL)
        return head % step.index + json_text(text) + tail % next(self._numbers)

    def _call(self, index: int, event: CallStarted) -> bytes:
        pending = PendingCall(event.native_id, event.name)
        begun = {"type": "function_call", "id": event.native_id, "name": event.name, "arguments": {}}
        opened = self._open(index, "call", begun)
        self._steps[index].call = pending
        return opened

    def _argue(self, index: int, text: str) -> bytes:
        step = self._steps.get(index)
        if step is None or step.kind != "call" or not text:
            return b""
        step.pieces.append(text)
        return self._deltas(step, {"type": "arguments_delta", "arguments": text})

    def _seal(self, seal: Sealed) -> bytes:
        if is_opaque(seal.payload, seal.kind) and seal.block == "text" and seal.index not in self._steps:
            kept = msgspec.json.decode(seal.payload)
            held = {"type": "model_output", "content": [kept]} if kept["type"] in wire.CONTENTS else kept
            return self._whole(seal.index, "kept", held)
        if seal.kind != "thought":  # seals of other kinds are of other wires
            return b""
        known = self._steps.get(seal.index)
        if seal.block != "reasoning" and (known is None or known.kind != "reasoning"):
            return self._signed(seal.payload)
        opened = self._open(seal.index, "reasoning", {"type": "thought"})
        step = self._steps[seal.index]
        if step.kind != "reasoning" or step.closed:
            return opened
        step.signature = seal.payload
        return opened + self._deltas(step, {"type": "thought_signature", "signature": seal.payload})

    def _signed(self, signature: str) -> bytes:
        """The seal of a text or of a call: a thought of its own (INT-04)."""
        return self._whole(-1 - self._made, "shown", as_fields(write_thought("", signature)))

    def _cite(self, index: int, citation: Citation) -> bytes:
        begun = self._delta(index, "text", "") if index not in self._steps else b""
        step = self._steps[index]
        if step.kind != "text":
            return begun
        annotation = annotation_of(citation, step.text)
        step.cited.append(annotation)
        return begun + self._deltas(step, {"type": "text_annotation_delta", "annotations": [annotation]})

    def _deltas(self, step: _Step, delta: dict[str, Any]) -> bytes:
        return self._frame("step.delta", index=step.index, delta=delta)

    def _whole(self, index: int, kind: _Kind, step: Any) -> bytes:
        if index in self._steps:
            return b""
        return self._open(index, kind, step, whole=step)

    def _open(self, index: int, kind: _Kind, begun: Any, **fields: Any) -> bytes:
        if index in self._steps:
            return b""
        closed = [self._close(before) for before in self._steps.values() if _is_whole(before)]
        step = self._steps[index] = _Step(kind, self._made, begun, **fields)
        self._made += 1
        return b"".join((*closed, self._frame("step.start", index=step.index, step=begun)))

    def _close(self, step: _Step) -> bytes:
        if step.closed:
            return b""
        step.closed = True
        return self._frame("step.stop", index=step.index)

    def _frame(self, kind: str, **fields: Any) -> bytes:
        event = {"event_type": kind, **fields, "event_id": str(next(self._numbers))}
        return sse.encode(wire.ENCODER.encode(event), kind)


def _is_whole(step: _Step) -> bool:
    return not step.closed and (step.kind != "call" or is_object_text(step.text))

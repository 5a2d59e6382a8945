"""Streamed replies of Converse as its server writes them: one content block after another (BDR-09)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    MediaArrived,
    ReasoningDelta,
    Sealed,
    TextDelta,
)
from segue.dialects.converse import wire
from segue.dialects.converse.citations import write_citation
from segue.dialects.converse.errors import error_fields, type_for
from segue.dialects.converse.opaque_blocks import opaque_block
from segue.dialects.converse.reply import FINISHES, counts_of, finished
from segue.dialects.streams.amazon_event_stream import event_frame, exception_frame
from segue.dialects.streams.chunk_streams import ChunkEncoder
from segue.transcript.blocks.media import describe
from segue.transcript.blocks.value_text import is_object_text

if TYPE_CHECKING:
    from segue.conversation.events import Event
    from segue.errors import SegueError

_Kind: TypeAlias = Literal["text", "reasoning", "call"]
_IN_STREAM = frozenset(
    {
        "internalServerException",
        "modelStreamErrorException",
        "validationException",
        "throttlingException",
        "serviceUnavailableException",
    }
)
"""The errors that a stream has a frame for."""
_LASTING = frozenset({"fix", "log_in", "pay", "shrink"})
"""Remedies of errors that the same request would meet again."""


class _Open(Struct):
    """A block on the wire."""

    index: int
    kind: _Kind
    arguments: list[str] = []
    stopped: bool = False


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out.

    A block ends when the next one begins; only a call whose arguments are not whole yet stays open, so that parallel calls may
    come interleaved.
    """

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._begun = False
        self._blocks: dict[int, _Open] = {}

    def _failure(self, error: SegueError) -> bytes:
        return self._begin() + error_frame(error)

    def _ending(self) -> bytes:
        called = any(block.kind == "call" for block in self._blocks.values())
        ended = self._finished or finished(None, called=called)
        return b"".join(
            (
                self._begin(),
                *(self._stop(block) for block in self._blocks.values()),
                _frame("messageStop", stopReason=FINISHES.write(ended.reason, ended.raw)),
                _frame("metadata", usage=counts_of(self._usage), metrics={"latencyMs": 0}),
            )
        )

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return _frame("messageStart", role="assistant")

    def _content(self, event: Event) -> bytes:
        return self._begin() + self._encode(event)

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                return self._delta(index, "text", {"text": text})
            case ReasoningDelta(index, text):
                return self._delta(index, "reasoning", {"reasoningContent": {"text": text}})
            case ArgumentsDelta(index, text):
                sent = self._delta(index, "call", {"toolUse": {"input": text}})
                self._blocks[index].arguments.append(text)
                return sent
            case CallStarted(index, native_id, name):
                call = {"toolUseId": native_id, "name": name}
                return b"" if index in self._blocks else self._start_call(index, call)
            case Sealed():
                return self._seal(event)
            case MediaArrived(index, media):
                return self._delta(index, "text", {"text": describe(media).text})
            case Cited(index, citation):
                return self._delta(index, "text", {"citation": write_citation(citation)})
            case _:
                return b""

    def _seal(self, seal: Sealed) -> bytes:
        known = self._blocks.get(seal.index)
        own = opaque_block(seal.payload, seal.kind)
        if own is not None:
            return self._own_block(seal.index, known, own)
        if (known.kind if known is not None else seal.block) != "reasoning":
            return b""
        field = "redactedContent" if seal.kind == "redacted" else "signature"
        return self._delta(seal.index, "reasoning", {"reasoningContent": {field: seal.payload}})

    def _own_block(self, index: int, known: _Open | None, own: Raw) -> bytes:
        """A call of the provider's own tool comes whole."""
        call = msgspec.json.decode(own).get("toolUse")
        if known is not None or not isinstance(call, dict):
            return b""
        start = {name: value for name, value in call.items() if name != "input"}
        arguments = wire.ENCODER.encode(call.get("input", {})).decode()
        begun = self._start_call(index, start)
        self._blocks[index].arguments.append(arguments)
        return begun + self._delta(index, "call", {"toolUse": {"input": arguments}})

    def _delta(self, index: int, kind: _Kind, delta: dict[str, Any]) -> bytes:
        begun = b""
        if index not in self._blocks:
            unnamed = {"toolUseId": "", "name": ""}
            begun = self._start_call(index, unnamed) if kind == "call" else self._open(index, kind)
        return begun + _frame("contentBlockDelta", delta=delta, contentBlockIndex=self._blocks[index].index)

    def _start_call(self, index: int, start: dict[str, Any]) -> bytes:
        ended = self._open(index, "call")
        number = self._blocks[index].index
        return ended + _frame("contentBlockStart", start={"toolUse": start}, contentBlockIndex=number)

    def _open(self, index: int, kind: _Kind) -> bytes:
        """Begin a block; those before it that are whole end."""
        ended = b"".join([self._stop(before) for before in self._blocks.values() if _is_whole(before)])
        self._blocks[index] = _Open(len(self._blocks), kind)
        return ended

    def _stop(self, block: _Open) -> bytes:
        if block.stopped:
            return b""
        block.stopped = True
        return _frame("contentBlockStop", contentBlockIndex=block.index)


def error_frame(error: SegueError) -> bytes:
    """The frame that ends a stream which broke off."""
    kind = type_for(error)
    name = kind[:1].lower() + kind[1:]
    fields = error_fields(error)
    if name not in _IN_STREAM:
        name = "validationException" if error.remedy in _LASTING else "internalServerException"
    return exception_frame(name, wire.ENCODER.encode(fields))


def _is_whole(block: _Open) -> bool:
    if block.stopped:
        return False
    return block.kind != "call" or is_object_text("".join(block.arguments))


def _frame(kind: str, **fields: Any) -> bytes:
    return event_frame(kind, wire.ENCODER.encode(fields))

"""Streamed replies of the Messages wire as its server writes them: one content block after another (ANT-70)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    MediaArrived,
    ReasoningDelta,
    Sealed,
    TextDelta,
)
from segue.dialects.anthropic_messages import wire
from segue.dialects.anthropic_messages.citations import write_citation
from segue.dialects.anthropic_messages.errors import encode_error
from segue.dialects.anthropic_messages.reply import FINISHES, counts_of, finished
from segue.dialects.requests.opaque_blocks import is_opaque
from segue.dialects.streams import sse
from segue.dialects.streams.chunk_streams import ChunkEncoder
from segue.dialects.streams.chunk_template import ChunkTemplate, json_text
from segue.transcript.blocks.media import describe
from segue.transcript.blocks.value_text import is_object_text

if TYPE_CHECKING:
    from segue.conversation.events import Event
    from segue.errors import SegueError

_Kind: TypeAlias = Literal["text", "reasoning", "call"]
_EMPTY: dict[_Kind, dict[str, Any]] = {
    "text": {"type": "text", "text": ""},
    "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
    "call": {"type": "tool_use", "id": "", "name": "", "input": {}},
}
_HEAD = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":'
_HEADS: dict[_Kind, bytes] = {
    "text": _HEAD + b'{"type":"text_delta","text":',
    "reasoning": _HEAD + b'{"type":"thinking_delta","thinking":',
    "call": _HEAD + b'{"type":"input_json_delta","partial_json":',
}
_TAIL = b"}}\n\n"


class _Open(Struct):
    """A block on the wire. `head`: all of a delta before its text."""

    index: int
    kind: _Kind
    head: bytes
    arguments: list[str] = []
    stopped: bool = False


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out.

    A block ends when the next one begins; only a call whose arguments are not whole yet stays open, so that parallel
    calls may come interleaved. Seals on anything but thoughts have no place on this wire.
    """

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._begun = False
        self._blocks: dict[int, _Open] = {}
        self._heads: dict[int, bytes] = {}

    def feed(self, event: Event) -> bytes:
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            # Nearly all events: more of a block that is known.
            head = self._heads.get(event.index)
            if head is not None:
                return head + json_text(event.text) + _TAIL
        elif type(event) is ArgumentsDelta:
            block = self._blocks.get(event.index)
            if block is not None and not self._over:
                block.arguments.append(event.text)
                return block.head + json_text(event.text) + _TAIL
        return self._feed(event) if not self._over else b""

    def template(self, event: TextDelta | ReasoningDelta) -> ChunkTemplate | None:
        head = self._heads.get(event.index)
        return ChunkTemplate(head, _TAIL) if head is not None else None

    def _failure(self, error: SegueError) -> bytes:
        self._heads.clear()
        return self._begin() + sse.encode(encode_error(error)[1], "error")

    def _ending(self) -> bytes:
        self._heads.clear()
        called = any(block.kind == "call" for block in self._blocks.values())
        ended = self._finished or finished(None, called=called)
        delta = {"stop_reason": FINISHES.write(ended.reason, ended.raw), "stop_sequence": None}
        return b"".join(
            (
                self._begin(),
                *(self._stop(block) for block in self._blocks.values()),
                _frame("message_delta", delta=delta, usage=counts_of(self._usage)),
                _frame("message_stop"),
            )
        )

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        message: dict[str, Any] = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            # What was counted so far: clients read these numbers before they are known.
            "usage": {"input_tokens": 0, "output_tokens": 0, **counts_of(self._usage, known=True)},
        }
        return _frame("message_start", message=message)

    def _content(self, event: Event) -> bytes:
        return self._begin() + self._encode(event)

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                return self._delta(index, "text", text)
            case ReasoningDelta(index, text):
                return self._delta(index, "reasoning", text)
            case ArgumentsDelta(index, text):
                sent = self._delta(index, "call", text)
                self._blocks[index].arguments.append(text)
                return sent
            case CallStarted(index, native_id, name):
                block = {"type": "tool_use", "id": native_id, "name": name, "input": {}}
                return b"" if index in self._blocks else self._start(index, "call", block)
            case Sealed():
                return self._seal(event)
            case MediaArrived(index, media):
                return self._delta(index, "text", describe(media).text)
            case Cited(index, citation):
                return self._cite(index, write_citation(citation))
            case _:
                return b""

    def _seal(self, seal: Sealed) -> bytes:
        known = self._blocks.get(seal.index)
        if known is None and seal.block == "text" and is_opaque(seal.payload, seal.kind):
            return self._start(seal.index, "text", msgspec.Raw(seal.payload))
        if (known.kind if known is not None else seal.block) != "reasoning":
            return b""
        if known is None and seal.kind == "redacted":
            return self._start(seal.index, "reasoning", {"type": "redacted_thinking", "data": seal.payload})
        started = self._start(seal.index, "reasoning", _EMPTY["reasoning"]) if known is None else b""
        delta = {"type": "signature_delta", "signature": seal.payload}
        return started + _frame("content_block_delta", index=self._blocks[seal.index].index, delta=delta)

    def _cite(self, index: int, citation: dict[str, Any] | None) -> bytes:
        if citation is None:
            return b""
        started = self._start(index, "text", _EMPTY["text"]) if index not in self._blocks else b""
        delta = {"type": "citations_delta", "citation": citation}
        return started + _frame("content_block_delta", index=self._blocks[index].index, delta=delta)

    def _delta(self, index: int, kind: _Kind, text: str) -> bytes:
        started = self._start(index, kind, _EMPTY[kind]) if index not in self._blocks else b""
        return started + self._blocks[index].head + json_text(text) + _TAIL

    def _start(self, index: int, kind: _Kind, block: dict[str, Any] | msgspec.Raw) -> bytes:
        ended = [self._stop(before) for before in self._blocks.values() if _is_whole(before)]
        made = self._blocks[index] = _Open(len(self._blocks), kind, _HEADS[kind] % len(self._blocks))
        self._heads[index] = made.head
        return b"".join((*ended, _frame("content_block_start", index=made.index, content_block=block)))

    def _stop(self, block: _Open) -> bytes:
        if block.stopped:
            return b""
        block.stopped = True
        return _frame("content_block_stop", index=block.index)


def _is_whole(block: _Open) -> bool:
    if block.stopped:
        return False
    return block.kind != "call" or is_object_text("".join(block.arguments))


def _frame(kind: str, **fields: Any) -> bytes:
    return sse.encode(wire.ENCODER.encode({"type": kind, **fields}), kind)

"""Replies of the Mistral wire, both ways: whole or in portions, as the same events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.conversation.blocks import Citation, Code, Media, Reasoning, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
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
from segue.dialects.calls import arguments_text
from segue.dialects.chunk_streams import ChunkReader
from segue.dialects.citations import natives
from segue.dialects.counts import count, counted, with_price_facts
from segue.dialects.data_urls import media_from
from segue.dialects.errors import FailedResponse
from segue.dialects.finish_reasons import FinishReasons
from segue.dialects.garbled_lines import UNREADABLE, check_encoding
from segue.dialects.mistral import wire
from segue.dialects.mistral.errors import encode_error, error_from
from segue.dialects.mistral.rules import NAME
from segue.errors import ProtocolError
from segue.transcript.media import describe, written_out
from segue.transcript.value_text import arguments_of, json_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.events import Event, Reply
    from segue.conversation.message import Message

FINISHES = FinishReasons(  # MIS-23
    {
        "stop": ("stop",),
        "length": ("length", "model_length"),
        "tool_calls": ("tool_calls",),
        "content_filter": ("content_filter",),
        "error": ("error",),
    }
)
DONE = b"[DONE]"
"""What a stream ends with (MIS-20)."""


def decode_reply(body: bytes) -> list[Event]:
    events: list[Event] = []
    reader = ReplyReader()
    reader.unreadable = ProtocolError("The answer is not a reply of the Mistral wire.")
    reader.read(body, events)
    if reader.over or reader.answered:
        reader.close(events)
    else:
        events.append(Failed(ProtocolError("The answer holds no choices.")))
    return events


class ReplyReader(ChunkReader):
    """Reads a reply, whole or in portions."""

    __slots__ = ("_calls", "_last", "_started", "answered")

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, tuple[int, str]] = {}
        """The wire's index of a call → ours, and its id."""
        self._last = -1
        self._started = False
        self.answered = False

    def read(self, data: bytes, events: list[Event]) -> None:
        try:
            check_encoding(data)
            if self.answered:
                portion = wire.PORTIONS.decode(data)
                if portion.choices and not portion.usage and portion.choices[0].finish_reason != "error":
                    self._read_choice(portion.choices[0], events)
                    return
            chunk = wire.CHUNKS.decode(data)
        except UNREADABLE:
            if data == DONE:
                self.close(events)
            else:
                self._read_garbled(data, events)
            return
        if chunk.object == "error" or (chunk.choices is None and (chunk.error or chunk.detail)):
            self._fail(error_from(msgspec.json.decode(data), FailedResponse(body=data)), events)
            return
        if not self._started and (chunk.id or chunk.model or chunk.choices):
            self._started = True
            events.append(ReplyStarted(chunk.id or "", chunk.model or ""))
        if isinstance(chunk.usage, dict):
            usage = usage_of(chunk.usage)
            if usage != Usage():
                events.append(UsageReported(usage))
        if chunk.choices:
            self.answered = True
            self._read_choice(chunk.choices[0], events)

    def _read_choice(self, choice: wire.Choice, events: list[Event]) -> None:
        delta = choice.delta or choice.message
        if delta is not None:
            content = delta.content
            if type(content) is str and self._open == "text" and content and delta.tool_calls is None:
                events.append(TextDelta(self._index, content))
            else:
                self._read_message(delta, events)
        if choice.finish_reason:
            self._finish(choice.finish_reason, events)

    def close(self, events: list[Event]) -> None:
        """The reply was closed properly, with a reason or without one."""
        if not self.answered:
            self.end(events)
        elif not self.over:
            self.over = True
            events.append(Finished("tool_calls" if self._last >= 0 else "stop"))

    def _read_message(self, delta: wire.Delta, events: list[Event]) -> None:
        content = delta.content
        if isinstance(content, str):
            if content:
                events.append(TextDelta(self._block("text"), content))
        elif content:
            for chunk in content:
                self._read_chunk(chunk, events)
        for call in delta.tool_calls or ():
            self._read_call(call, events)

    def _read_chunk(self, chunk: wire.ContentChunk, events: list[Event]) -> None:  # MIS-22
        if chunk.type == "thinking":
            thought = _thought(chunk.thinking)
            if thought:
                events.append(ReasoningDelta(self._block("reasoning"), thought))
            if chunk.signature:
                events.append(Sealed(self._block("reasoning"), chunk.signature))
        elif chunk.text is not None:
            if chunk.text:
                events.append(TextDelta(self._block("text"), chunk.text))
        elif chunk.image_url is not None:
            held = chunk.image_url
            address = held.get("url") if isinstance(held, dict) else held
            events.append(MediaArrived(self._new_block(), media_from(str(address), "image")))
        elif chunk.reference_ids is not None:
            # Inside the text: whoever has no such chunk reads it there.
            index = self._new_block()
            came = {"type": chunk.type, "reference_ids": chunk.reference_ids}
            events.append(Cited(index, Citation(dialect=NAME, native=json_of(came))))
            events.append(TextDelta(index, f"[{chunk.type}: {json_of(chunk.reference_ids)}]"))
        elif chunk.type == "tool_reference":
            # Of Mistral's own tools; its chat takes no such chunk back.
            found = Citation(chunk.title or "", chunk.url or "", str(chunk.tool))
            events.append(Cited(self._block("text"), found))

    def _read_call(self, call: wire.Call, events: list[Event]) -> None:
        """MIS-21: whole and mostly without an index, or in portions that it keeps apart."""
        name, native_id = call.function.name or "", call.id or ""
        if native_id == "null":
            native_id = ""
        known = self._calls.get(call.index) if call.index is not None else None
        if known is not None and (not native_id or native_id == known[1]):
            index = known[0]
        elif call.index is None and not native_id and not name and self._last >= 0:
            index = self._last
        else:
            index = self._last = self._new_block()
            if call.index is not None:
                self._calls[call.index] = (index, native_id)
            events.append(CallStarted(index, native_id, name))
        arguments = arguments_text(call.function.arguments)
        if arguments:
            events.append(ArgumentsDelta(index, arguments))

    def _finish(self, reason: str, events: list[Event]) -> None:
        if not self.over:
            self.over = True
            events.append(Finished(FINISHES.read(reason), reason))


def _thought(held: Any) -> str:
    if isinstance(held, str):
        return held
    parts = held if isinstance(held, list) else []
    return "".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )


def usage_of(counts: Mapping[str, Any]) -> Usage:
    details = counts.get("prompt_tokens_details")
    cached = count(details, "cached_tokens") if isinstance(details, dict) else None
    if cached is None:
        cached = count(counts, "num_cached_tokens")
    usage = counted(count(counts, "prompt_tokens"), count(counts, "completion_tokens"), cached=cached)
    return usage if usage == Usage() else with_price_facts(usage, counts.get("service_tier"))


# The other way


def encode_reply(reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    choice = {
        "index": 0,
        "message": _encode_message(reply.message),
        "finish_reason": FINISHES.write(reply.finish, reply.raw_finish),
    }
    return wire.ENCODER.encode(
        {
            "id": reply.id,
            "object": "chat.completion",
            "created": int(reply.created),
            "model": reply.model,
            "choices": [choice],
            "usage": counts_of(reply.usage),
        }
    )


def _encode_message(message: Message) -> dict[str, Any]:
    chunks: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in message.blocks:
        match block:
            case Text():
                chunks += chunks_of(block)
            case Reasoning(text, seal):
                signature = seal.payload if seal is not None and seal.kind == "signature" else ""
                chunks.append(thinking_chunk(text, signature))
            case ToolCall():
                calls.append(call_of(block, len(calls)))
            case Media():
                chunks.append({"type": "text", "text": describe(block).text})
            case Code():
                chunks.append({"type": "text", "text": written_out(block).text})
            case _:  # a result is never part of a reply
                continue
    content: Any = chunks
    if len(chunks) <= 1 and all(chunk["type"] == "text" for chunk in chunks):
        content = chunks[0]["text"] if chunks else ""
    return {"role": "assistant", "content": content, "tool_calls": calls or None}


def chunks_of(block: Text) -> list[dict[str, Any]]:
    """A text and its references, of which each stands in place of its words."""
    own = natives(block.citations, NAME)
    if any("reference_ids" in chunk for chunk in own):
        return own
    return [{"type": "text", "text": block.text}, *own]


def thinking_chunk(text: str, signature: str = "") -> dict[str, Any]:
    chunk: dict[str, Any] = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
    if signature:
        chunk["signature"] = signature
    return chunk


def call_of(call: ToolCall, index: int) -> dict[str, Any]:
    arguments = call.raw or arguments_of(call)[0]
    return {
        "id": call.native_id or call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
        "index": index,
    }


def counts_of(usage: Usage) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,  # null: not known
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    if usage.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return counts

"""Whole replies of Converse, both ways, as the events a stream would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall
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
from segue.dialects.converse import wire
from segue.dialects.converse.citations import cited_block, read_citations
from segue.dialects.converse.errors import encode_error, error_from
from segue.dialects.converse.opaque_blocks import KIND, cited_text, opaque_block
from segue.dialects.converse.wire import read_media
from segue.dialects.errors import FailedResponse
from segue.dialects.replies.calls import compact_arguments
from segue.dialects.replies.finish_reasons import FinishReasons
from segue.dialects.replies.usage_counts import count, counted
from segue.errors import ProtocolError
from segue.transcript.blocks.media import describe, written_out
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msgspec import Raw

    from segue.conversation.blocks import Block
    from segue.conversation.events import Event, Reply
    from segue.conversation.usage import Usage

FINISHES = FinishReasons(  # BDR-09
    {
        "stop": ("end_turn", "stop_sequence"),
        "tool_calls": ("tool_use",),
        "length": ("max_tokens", "model_context_window_exceeded"),
        "content_filter": ("content_filtered", "guardrail_intervened"),
        "error": ("malformed_model_output", "malformed_tool_use"),
    },
    writes={"error": "end_turn"},
)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def decode_reply(body: bytes) -> list[Event]:
    try:
        reply = wire.REPLIES.decode(body)
    except _UNREADABLE:
        return [Failed(ProtocolError("The answer is not a reply of Converse."))]
    if reply.output is None and isinstance(reply.message, str):
        return [Failed(error_from("", {"message": reply.message}, FailedResponse(body=body)))]
    message = reply.output.message if reply.output is not None else None
    if message is None or message.content is None:
        return [Failed(ProtocolError("The answer holds no message.", path="output.message"))]
    events: list[Event] = [ReplyStarted()]
    try:
        for index, block in enumerate(message.content):
            events += _decode_block(index, wire.BLOCKS.decode(block), block)
    except _UNREADABLE:
        path = "output.message.content"
        return [Failed(ProtocolError("The answer holds a block that cannot be read.", path=path))]
    usage = usage_of(reply.usage)
    if usage is not None:
        events.append(UsageReported(usage))
    called = any(type(event) is CallStarted for event in events)
    events.append(finished(reply.stop_reason, called=called))
    return events


def finished(reason: str | None, *, called: bool) -> Finished:
    if not reason:
        return Finished("tool_calls" if called else "stop")
    return Finished(FINISHES.read(reason), reason)


def _decode_block(index: int, block: wire.Block, whole: Raw) -> Iterator[Event]:
    if block.text is not None:
        if block.text:
            yield TextDelta(index, block.text)
    elif block.tool_use is not None and block.tool_use.type is None:
        yield CallStarted(index, block.tool_use.tool_use_id, block.tool_use.name)
        arguments = bytes(block.tool_use.input).decode()
        yield ArgumentsDelta(index, "{}" if arguments in ("", "null") else arguments)
    elif block.reasoning_content is not None:
        yield from _decode_thought(index, block.reasoning_content)
    else:
        yield from own_block(index, msgspec.json.decode(whole))


def _decode_thought(index: int, block: wire.ReasoningBlock) -> Iterator[Event]:
    thought = block.reasoning_text
    if thought is not None:
        if thought.text:
            yield ReasoningDelta(index, thought.text)
        if thought.signature:
            yield Sealed(index, thought.signature)
    if block.redacted_content is not None:
        yield Sealed(index, block.redacted_content, "redacted")


def own_block(index: int, block: Any) -> Iterator[Event]:
    """A block that only the wire itself has, and images, which other wires have too."""
    if not isinstance(block, dict) or not block:
        return
    shown = read_media(block) if "image" in block else None
    if shown is not None:
        yield MediaArrived(index, shown)
        return
    cited = block.get("citationsContent")
    if isinstance(cited, dict):
        if words := cited_text(cited):
            yield TextDelta(index, words)
        for citation in read_citations(cited):
            yield Cited(index, citation)
        return
    yield Sealed(index, json_of(block), KIND, "text")


def usage_of(counts: Any) -> Usage | None:
    """All of the input counts, cached or not (BDR-17). None if nothing was counted."""
    if not isinstance(counts, dict):
        return None
    read, written = count(counts, "cacheReadInputTokens"), count(counts, "cacheWriteInputTokens")
    fresh, output = count(counts, "inputTokens"), count(counts, "outputTokens")
    if not (read or written or fresh or output):
        return None
    details = counts.get("cacheDetails")
    kept = [entry for entry in details if isinstance(entry, dict)] if isinstance(details, list) else []
    hour = sum(count(entry, "inputTokens") or 0 for entry in kept if entry.get("ttl") == "1h")
    return counted(
        None if fresh is None else fresh + (read or 0) + (written or 0),
        output,
        cached=read,
        cache_write=written,
        cache_hour=hour or None,
    )


# The other way


def encode_reply(reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    content = [written for block in reply.message.blocks if (written := _encode_block(block)) is not None]
    return wire.ENCODER.encode(
        {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": FINISHES.write(reply.finish, reply.raw_finish),
            "usage": counts_of(reply.usage),
            "metrics": {"latencyMs": 0},
        }
    )


def _encode_block(block: Block) -> Any:
    match block:
        case Text(text):
            seal = block.seal
            own = opaque_block(seal.payload, seal.kind) if seal is not None else None
            if own is not None:
                return own
            return cited_block(text, block.citations) if block.citations else {"text": text} if text else None
        case Reasoning(thought, seal):
            if seal is not None and seal.kind == "redacted":
                return {"reasoningContent": {"redactedContent": seal.payload}}
            signed = {"signature": seal.payload} if seal is not None else {}
            return {"reasoningContent": {"reasoningText": {"text": thought, **signed}}}
        case ToolCall():
            call_id = block.native_id or block.id
            return {"toolUse": {"toolUseId": call_id, "name": block.name, "input": compact_arguments(block)}}
        case Media():
            return {"text": describe(block).text}
        case Code():
            return {"text": written_out(block).text}
        case _:  # a result is never part of a reply
            return None


def counts_of(usage: Usage) -> dict[str, Any]:
    """The counts that are known."""
    read, written = usage.cached_tokens, usage.cache_write_tokens
    fresh = usage.input_tokens
    if fresh is not None:  # no part is larger than the whole, whatever a server counted
        read = None if read is None else min(read, fresh)
        written = None if written is None else min(written, fresh - (read or 0))
        fresh -= (read or 0) + (written or 0)
    known = usage.input_tokens is not None and usage.output_tokens is not None
    counts: dict[str, Any] = {
        "inputTokens": fresh,
        "outputTokens": usage.output_tokens,
        "totalTokens": (usage.input_tokens or 0) + (usage.output_tokens or 0) if known else None,
        "cacheReadInputTokens": read,
        "cacheWriteInputTokens": written,
    }
    if usage.cache_hour_tokens is not None and written:
        hour = min(usage.cache_hour_tokens, written)
        lasting = (("1h", hour), ("5m", written - hour))
        counts["cacheDetails"] = [{"ttl": ttl, "inputTokens": tokens} for ttl, tokens in lasting if tokens]
    return {name: number for name, number in counts.items() if number is not None}

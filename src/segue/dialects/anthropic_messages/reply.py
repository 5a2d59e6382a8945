"""Whole replies of the Messages wire, both ways, as the events a stream would give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, structs

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Failed,
    Finished,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
)
from segue.dialects.anthropic_messages import wire
from segue.dialects.anthropic_messages.citations import read_citations, write_citation
from segue.dialects.anthropic_messages.errors import encode_error, error_from
from segue.dialects.errors import FailedResponse
from segue.dialects.replies.calls import compact_arguments
from segue.dialects.replies.finish_reasons import FinishReasons
from segue.dialects.replies.usage_counts import count, counted, with_price_facts
from segue.dialects.requests.opaque_blocks import KIND, opaque_block
from segue.errors import ProtocolError
from segue.transcript.blocks.media import describe, written_out
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.blocks import Block
    from segue.conversation.events import Event, Reply
    from segue.conversation.usage import Usage

_REASON: Final = re.compile("[a-z_]{1,40}")
FINISHES = FinishReasons(  # ANT-74
    {
        "stop": ("end_turn", "stop_sequence", "pause_turn"),
        "tool_calls": ("tool_use",),
        "length": ("max_tokens", "model_context_window_exceeded"),
        "content_filter": ("refusal",),
    }
)


def decode_reply(body: bytes) -> list[Event]:
    try:
        reply = wire.REPLIES.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return [Failed(ProtocolError("The answer is not a reply of the Messages wire."))]
    if isinstance(reply.error, dict):
        return [Failed(error_from(reply.error, FailedResponse(body=body)))]
    if reply.content is None:
        return [Failed(ProtocolError("The answer holds no content.", path="content"))]
    events: list[Event] = [ReplyStarted(reply.id or "", reply.model or "")]
    try:
        for index, block in enumerate(reply.content):
            events += _decode_block(index, wire.BLOCKS.decode(block), block)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return [Failed(ProtocolError("The answer holds a block that cannot be read.", path="content"))]
    usage = usage_of(reply.usage, reply.diagnostics)
    if usage is not None:
        events.append(UsageReported(usage))
    called = any(type(event) is CallStarted for event in events)
    events.append(finished(reply.stop_reason, called=called))
    return events


def finished(reason: str | None, *, called: bool) -> Finished:
    if reason is None:
        return Finished("tool_calls" if called else "stop")
    return Finished(FINISHES.read(reason), reason)


def _decode_block(index: int, block: wire.ReplyBlock, whole: Raw) -> Iterator[Event]:
    match block.type:
        case "text":
            if block.text:
                yield TextDelta(index, block.text)
            for citation in read_citations(block.citations):
                yield Cited(index, citation)
        case "thinking":
            if block.thinking:
                yield ReasoningDelta(index, block.thinking)
            if block.signature:
                yield Sealed(index, block.signature)
        case "redacted_thinking":
            yield Sealed(index, block.data or "", "redacted")
        case "tool_use":
            yield CallStarted(index, block.id or "", block.name or "")
            arguments = bytes(block.input).decode()
            yield ArgumentsDelta(index, "{}" if arguments in ("", "null") else arguments)
        case _:
            yield Sealed(index, json_of(msgspec.json.decode(whole)), KIND, "text")


def usage_of(counts: Any, diagnostics: Any = None) -> Usage | None:
    """All of the input counts, cached or not (ANT-73). None if nothing was counted. `diagnostics`: what a client may ask for, why
    its cache was not read (ANT-87)."""
    if not isinstance(counts, dict):
        return None
    read, written = count(counts, "cache_read_input_tokens"), count(counts, "cache_creation_input_tokens")
    fresh, output = count(counts, "input_tokens"), count(counts, "output_tokens")
    if not (read or written or fresh or output):
        return None
    details, kept = counts.get("output_tokens_details"), counts.get("cache_creation")
    ran = counts.get("server_tool_use")
    usage = counted(
        None if fresh is None else fresh + (read or 0) + (written or 0),
        output,
        cached=read,
        cache_write=written,
        reasoning=count(details, "thinking_tokens") if isinstance(details, dict) else None,
        cache_hour=count(kept, "ephemeral_1h_input_tokens") if isinstance(kept, dict) else None,
    )
    if (reason := _miss_reason(diagnostics)) is not None:
        usage = structs.replace(usage, cache_miss=reason)
    return with_price_facts(
        usage,
        *(counts.get(name) for name in ("service_tier", "speed", "inference_geo")),
        web_searches=ran.get("web_search_requests") if isinstance(ran, dict) else None,
    )


def _miss_reason(diagnostics: Any) -> str | None:
    reason = diagnostics.get("cache_miss_reason") if isinstance(diagnostics, dict) else None
    word = reason.get("type") if isinstance(reason, dict) else None
    return word if isinstance(word, str) and _REASON.fullmatch(word) else None


# The other way


def encode_reply(reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    return wire.ENCODER.encode(
        {
            "id": reply.id,
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": [
                content for block in reply.message.blocks if (content := _encode_block(block)) is not None
            ],
            "stop_reason": FINISHES.write(reply.finish, reply.raw_finish),
            "stop_sequence": None,
            "usage": counts_of(reply.usage),
        }
    )


def _encode_block(block: Block) -> wire.Content | None:
    match block:
        case Text(text):
            return opaque_block(block) or (encode_text(block) if text or block.citations else None)
        case Reasoning(thought, seal):
            if seal is not None and seal.kind == "redacted":
                return wire.RedactedThinking(seal.payload)
            return wire.Thinking(thought, seal.payload if seal is not None else "")
        case ToolCall():
            return wire.ToolUse(block.native_id or block.id, block.name, compact_arguments(block))
        case Media():
            return wire.TextBlock(describe(block).text)
        case Code():
            return wire.TextBlock(written_out(block).text)
        case _:  # a result is never part of a reply
            return None


def encode_text(block: Text) -> wire.TextBlock | wire.CitedText:
    cited = [written for citation in block.citations if (written := write_citation(citation)) is not None]
    return wire.CitedText(block.text, cited) if cited else wire.TextBlock(block.text)


def counts_of(usage: Usage, *, known: bool = False) -> dict[str, Any]:
    """The counts; null where one that every reply has is not known, or only the `known` ones."""
    read, written = usage.cached_tokens, usage.cache_write_tokens
    fresh = usage.input_tokens
    if fresh is not None:  # no part is larger than the whole, whatever a server counted
        read = None if read is None else min(read, fresh)
        written = None if written is None else min(written, fresh - (read or 0))
        fresh -= (read or 0) + (written or 0)
    counts: dict[str, Any] = {
        "input_tokens": fresh,
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
    }
    if usage.reasoning_tokens is not None:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    if usage.cache_hour_tokens is not None and written:
        hour = min(usage.cache_hour_tokens, written)
        counts["cache_creation"] = {
            "ephemeral_5m_input_tokens": written - hour,
            "ephemeral_1h_input_tokens": hour,
        }
    needed = () if known else ("input_tokens", "output_tokens")
    return {name: count for name, count in counts.items() if count is not None or name in needed}

"""A reply on the wire of the Messages API: whole, or as named server-sent events (ANT-70 … ANT-74)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.anthropic import prompt, thinking, typed_blocks
from segue.emulators.http import sse
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think, piece_tokens, portions
from segue.emulators.model.prompt_cache import size
from segue.emulators.rules import Context, rule
from segue.emulators.signatures import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STOP_REASONS = {
    "length": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
    "pause": "pause_turn",
}


@rule("ANT-74")
def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    pieces = _pieces(reply, request, context)
    blocks = _blocks(pieces, request, context)
    return {
        **_opening(context),
        "content": blocks,
        "stop_reason": _stop_reason(reply, blocks),
        "usage": _usage(request, context, sum(map(piece_tokens, pieces))),
    }


@rule("ANT-70")
@rule("ANT-71")
def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    pieces = _pieces(reply, request, context)
    blocks = _blocks(pieces, request, context)
    usage = _usage(request, context, 1)
    yield _event("message_start", message={**_opening(context), "usage": usage})
    for index, block in enumerate(blocks):
        yield _event("content_block_start", index=index, content_block=_started(block))
        if index == 0:
            yield _event("ping")
        for delta in _deltas(block, reply.chunk_size):
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    # Cumulative: it replaces what message_start sent (ANT-73).
    total = {**usage, "output_tokens": sum(map(piece_tokens, pieces))}
    ending = {"stop_reason": _stop_reason(reply, blocks), "stop_sequence": None, "stop_details": None}
    yield _event("message_delta", delta=ending, usage=total)
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _opening(context: Context) -> dict[str, Any]:
    return {
        "id": _message_id(context),
        "type": "message",
        "role": "assistant",
        "model": context.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
    }


def _message_id(context: Context) -> str:
    return f"msg_01{context.reply_id or 'emulated'}"


def _pieces(reply: Reply, request: Mapping[str, Any], context: Context) -> list[Piece]:
    """What the model says of the reply: no thoughts unless it thinks, and nothing when the cache is only warmed."""
    if request.get("max_tokens") == 0:
        return []
    thinks = typed_blocks.thinks(request, context)
    return [piece for piece in reply.pieces if thinks or not isinstance(piece, Think)]


def _blocks(pieces: list[Piece], request: Mapping[str, Any], context: Context) -> list[dict[str, Any]]:
    """The reply's content; each thinking block is sealed over all that stands before it."""
    name = f"{_message_id(context)}/{sum(isinstance(piece, Think) for piece in pieces)}"
    trail = thinking.trail_of(request, context)
    blocks: list[dict[str, Any]] = []
    for index, piece in enumerate(pieces):
        match piece:
            case Say(text):
                block: dict[str, Any] = {"type": "text", "text": text}
            case Think(text):
                shown = _shown(request, context)
                signature = thinking.sign(trail, context.secret, text=text, shown=shown, reply=name)
                block = {"type": "thinking", "thinking": text if shown else "", "signature": signature}
            case Call(tool, arguments):
                call_id = "toolu_01" + digest([_message_id(context), index])[:22]
                block = {"type": "tool_use", "id": call_id, "name": tool, "input": dict(arguments)}
        blocks.append(block)
        trail.add("assistant", block)
    return blocks


def _shown(request: Mapping[str, Any], context: Context) -> bool:
    display = typed_blocks.record_of(request.get("thinking")).get("display")
    return display in ("summarized", "updates") if display else not context.facts.get("omits_thinking")


def _started(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block before its deltas."""
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}


@rule("ANT-72")
def _deltas(block: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            for text in portions(block["text"], size):
                yield {"type": "text_delta", "text": text}
        case "thinking":
            for text in portions(block["thinking"], size):
                yield {"type": "thinking_delta", "thinking": text}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            # The first fragment is empty; a call without arguments has no other (ANT-72).
            yield {"type": "input_json_delta", "partial_json": ""}
            written = msgspec.json.encode(block["input"]).decode() if block["input"] else ""
            for text in portions(written, size):
                yield {"type": "input_json_delta", "partial_json": text}


def _stop_reason(reply: Reply, blocks: list[dict[str, Any]]) -> str:
    if reply.finish in STOP_REASONS:
        return STOP_REASONS[reply.finish]
    if any(block["type"] == "tool_use" for block in blocks):
        return "tool_use"
    return "end_turn" if blocks or not reply.pieces else "max_tokens"


@rule("ANT-73")
@rule("ANT-86")
def _usage(request: Mapping[str, Any], context: Context, output: int) -> dict[str, Any]:
    """`input_tokens` is what the cache neither gave nor took (ANT-73)."""
    total = size(prompt.segments(request))
    cacheable = size(prompt.cached_segments(request))
    if cacheable < context.facts.get("cache_minimum", 0):
        cacheable = 0
    read = min(context.cached_tokens, cacheable)
    hour = max(min(prompt.hour_tokens(request), cacheable) - read, 0)
    return {
        "input_tokens": total - cacheable,
        "cache_creation_input_tokens": cacheable - read,
        "cache_read_input_tokens": read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": cacheable - read - hour,
            "ephemeral_1h_input_tokens": hour,
        },
        "output_tokens": output,
        "service_tier": "standard",
    }

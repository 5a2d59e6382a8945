"""A reply of Converse: whole, or as event frames (BDR-09, BDR-17, BDR-18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.converse import checks, prompt
from segue.emulators.converse.frames import event
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think, limited, piece_tokens, portions
from segue.emulators.model.prompt_cache import size
from segue.emulators.rules import Context, rule
from segue.emulators.signatures import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STOP_REASONS = {
    "length": "max_tokens",
    "refusal": "content_filtered",
    "content_filter": "guardrail_intervened",
}
LATENCY = 551


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    reply = _cut(reply, request)
    pieces = _pieces(reply, request, context)
    blocks = _blocks(pieces, context)
    return {
        "metrics": {"latencyMs": LATENCY},
        "output": {"message": {"content": blocks, "role": "assistant"}},
        "stopReason": _stop_reason(reply, blocks),
        "usage": _usage(request, context, sum(map(piece_tokens, pieces))),
    }


@rule("BDR-09")
@rule("BDR-18")
def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    reply = _cut(reply, request)
    pieces = _pieces(reply, request, context)
    blocks = _blocks(pieces, context)
    yield _event("messageStart", role="assistant")
    for index, block in enumerate(blocks):
        if "toolUse" in block:
            start = {key: block["toolUse"][key] for key in ("toolUseId", "name")}
            yield _event("contentBlockStart", contentBlockIndex=index, start={"toolUse": start})
        for delta in _deltas(block, reply.chunk_size):
            yield _event("contentBlockDelta", contentBlockIndex=index, delta=delta)
        yield _event("contentBlockStop", contentBlockIndex=index)
    yield _event("messageStop", stopReason=_stop_reason(reply, blocks))
    usage = _usage(request, context, sum(map(piece_tokens, pieces)))
    yield _event("metadata", metrics={"latencyMs": LATENCY}, usage=usage)


def _event(kind: str, **fields: Any) -> bytes:
    # The service pads its payloads, so that their length tells nothing.
    fields["p"] = "abcdefghijklmnopqrstuvwxyz"[: 4 + len(fields)]
    return event(kind, msgspec.json.encode(fields))


def _cut(reply: Reply, request: Mapping[str, Any]) -> Reply:
    return limited(reply, (request.get("inferenceConfig") or {}).get("maxTokens"))


def _pieces(reply: Reply, request: Mapping[str, Any], context: Context) -> list[Piece]:
    thinks = prompt.thinks(request, context)
    return [piece for piece in reply.pieces if thinks or not isinstance(piece, Think)]


def _blocks(pieces: list[Piece], context: Context) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for index, piece in enumerate(pieces):
        match piece:
            case Say(text):
                blocks.append({"text": text})
            case Think(text):
                signed = {"signature": checks.sign(text, context)} if context.facts.get("signs") else {}
                blocks.append({"reasoningContent": {"reasoningText": {"text": text, **signed}}})
            case Call(tool, arguments):
                call_id = "tooluse_" + digest([context.reply_id, index])[:22]
                blocks.append({"toolUse": {"toolUseId": call_id, "name": tool, "input": dict(arguments)}})
    return blocks


def _deltas(block: Mapping[str, Any], step: int) -> Iterator[dict[str, Any]]:
    if "text" in block:
        for text in portions(block["text"], step):
            yield {"text": text}
    elif "toolUse" in block:
        for text in portions(msgspec.json.encode(block["toolUse"]["input"]).decode(), step):
            yield {"toolUse": {"input": text}}
    else:
        thought = block["reasoningContent"]["reasoningText"]
        for text in portions(thought["text"], step):
            yield {"reasoningContent": {"text": text}}
        if "signature" in thought:
            yield {"reasoningContent": {"signature": thought["signature"]}}


def _stop_reason(reply: Reply, blocks: list[dict[str, Any]]) -> str:
    if reply.finish in STOP_REASONS:
        return STOP_REASONS[reply.finish]
    return "tool_use" if any("toolUse" in block for block in blocks) else "end_turn"


@rule("BDR-17")
def _usage(request: Mapping[str, Any], context: Context, output: int) -> dict[str, Any]:
    """`inputTokens` is what the cache neither gave nor took."""
    total, cacheable = size(prompt.segments(request)), size(prompt.cached_segments(request))
    read = min(context.cached_tokens, cacheable)
    usage: dict[str, Any] = {
        "inputTokens": total - cacheable,
        "outputTokens": output,
        "totalTokens": total + output,
        "cacheReadInputTokens": read,
        "cacheWriteInputTokens": cacheable - read,
    }
    if cacheable > read:
        usage["cacheDetails"] = [{"ttl": "5m", "inputTokens": cacheable - read}]
    return usage

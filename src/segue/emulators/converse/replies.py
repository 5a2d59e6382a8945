"""A reply of Converse, whole or as AWS event-stream frames (BDR-09, BDR-17, BDR-18), and errors: the message in the
body, the type in a header (BDR-19)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.converse import checks, prompt
from segue.emulators.http import ErrorWords, retry_after
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think, limited, piece_tokens, portions
from segue.emulators.model.prompt_cache import size
from segue.emulators.rules import Context, Refusal, rule
from segue.emulators.signatures import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.faults import Fault


def _header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return len(key).to_bytes(1, "big") + key + b"\x07" + len(text).to_bytes(2, "big") + text


def _frame(headers: dict[str, str], payload: bytes) -> bytes:
    block = b"".join(_header(name, value) for name, value in headers.items())
    prelude = (16 + len(block) + len(payload)).to_bytes(4, "big") + len(block).to_bytes(4, "big")
    checked = prelude + zlib.crc32(prelude).to_bytes(4, "big") + block + payload
    return checked + zlib.crc32(checked).to_bytes(4, "big")


def event(kind: str, payload: bytes) -> bytes:
    return _frame(
        {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload
    )


def exception(kind: str, payload: bytes) -> bytes:
    return _frame(
        {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}, payload
    )


VALIDATION = "ValidationException"
TYPES = {
    400: VALIDATION,
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
MESSAGES = {
    403: "You don't have access to the model with the specified model ID.",
    404: "Could not resolve the foundation model from the provided model identifier.",
    408: "Model has timed out in processing the request. Try your request again.",
    424: "The system encountered an unexpected error during processing. Try your request again.",
    429: "Too many requests, please wait before trying again.",
    500: "The system encountered an unexpected error during processing. Try your request again.",
    503: "Bedrock is unable to process your request.",
}
_IN_STREAM = {
    "ThrottlingException": "throttlingException",
    VALIDATION: "validationException",
    "ServiceUnavailableException": "serviceUnavailableException",
    "ModelErrorException": "modelStreamErrorException",
}


@rule("BDR-19")
def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:
    body: dict[str, Any] = {"message": refusal.message}
    if refusal.status == 424:
        body |= {"originalStatusCode": 500, "resourceName": context.model}
    return body


@rule("BDR-19")
def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    found = {"x-amzn-requestid": f"00000000-0000-4000-8000-{(context.reply_id or 'emulated')[:12]:0<12}"}
    if refusal is not None:
        found["x-amzn-errortype"] = _type(refusal) + ":http://internal.amazon.com/coral/com.amazon.bedrock/"
    return found | retry_after(refusal)


def _type(refusal: Refusal) -> str:
    if refusal.type.endswith("Exception"):
        return refusal.type
    return TYPES.get(refusal.status, VALIDATION if refusal.status < 500 else "InternalServerException")


def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001
    """Bedrock's words for an error status that has nothing to do with the request's shape."""
    usual = MESSAGES.get(fault.status, MESSAGES[500])
    return Refusal("BDR-19", usual, type=TYPES.get(fault.status, ""))


@rule("BDR-09")
def stream_error(refusal: Refusal, context: Context) -> bytes:
    """An error after HTTP 200: the stream ends behind it."""
    name = _IN_STREAM.get(_type(refusal), "internalServerException")
    return exception(name, msgspec.json.encode(envelope(refusal, context)))


@rule("BDR-19")
def not_json(_: bytes, problem: str) -> Refusal:
    return Refusal("BDR-19", f"Unable to parse the request body: {problem}", type="SerializationException")


ERRORS = ErrorWords(
    provider="bedrock",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    stream_error=stream_error,
)


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

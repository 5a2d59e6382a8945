"""A reply on Gemini's wire: whole, as server-sent events without an end mark, or as a JSON array (GEM-50 … GEM-56)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.gemini import cached_contents, checks, contents, prompt, thoughts
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think, piece_tokens, portions
from segue.emulators.model.prompt_cache import size
from segue.emulators.rules import Context, rule
from segue.emulators.signatures import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FINISH = {"auto": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY", "pause": "STOP"}
CALLED = "Model generated function call(s)."


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    body, _ = checks.parsed(request, "GenerateContentRequest")
    parts = _parts(reply, body, context)
    usage = _usage(reply.pieces, body, context)
    if reply.finish == "content_filter":
        return _blocked(usage, context)
    return {
        "candidates": [_candidate(parts, reply, called=_calls(parts))],
        "usageMetadata": usage,
        **_identity(context),
    }


def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    """Server-sent events; there is no `[DONE]`, the stream just ends."""
    for chunk in _chunks(reply, request, context):
        yield b"data: " + msgspec.json.encode(chunk) + b"\r\n\r\n"


def array(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    """The same chunks as one JSON array, written bit by bit."""
    opening = b"["
    for chunk in _chunks(reply, request, context):
        yield opening + msgspec.json.encode(chunk)
        opening = b"\n,\r\n"
    yield b"\n]\n"


@rule("GEM-51")
@rule("GEM-52")
def _chunks(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[dict[str, Any]]:
    body, _ = checks.parsed(request, "GenerateContentRequest")
    if reply.finish == "content_filter":
        yield _blocked(_usage((), body, context), context)
        return
    parts = _parts(reply, body, context)
    usage = _usage(reply.pieces, body, context)
    signature = None
    for part in parts:
        if "text" in part:
            # The signature of a text comes at the end, on an empty part (GEM-20).
            signature = part.get("thoughtSignature", signature)
        for portion in _portions(part, reply.chunk_size):
            yield _chunk([portion], usage, context)
    ending: dict[str, Any] = {"text": ""}
    if signature:
        ending["thoughtSignature"] = signature
    yield {
        "candidates": [_candidate([ending], reply, called=_calls(parts))],
        "usageMetadata": usage,
        **_identity(context),
    }


def _portions(part: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    """Texts arrive in increments, calls whole (GEM-51, GEM-52)."""
    if "text" not in part:
        yield dict(part)
        return
    kept = {"thought": True} if part.get("thought") else {}
    for text in portions(part["text"], size):
        yield {"text": text, **kept}


def _chunk(parts: list[dict[str, Any]], usage: Mapping[str, Any], context: Context) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, **_identity(context)}


@rule("GEM-53")
@rule("GEM-54")
def _candidate(parts: list[dict[str, Any]], reply: Reply, *, called: bool) -> dict[str, Any]:
    content = {"parts": parts, "role": "model"}
    candidate = {"content": content, "index": 0, "finishReason": FINISH[reply.finish]}
    # There is no finish reason for calls: they stop like any reply (GEM-53).
    return {**candidate, "finishMessage": CALLED} if called and reply.finish == "auto" else candidate


def _calls(parts: list[dict[str, Any]]) -> bool:
    return any("functionCall" in part for part in parts)


@rule("GEM-55")
def _blocked(usage: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """A blocked prompt is HTTP 200 without candidates (GEM-55)."""
    read = usage["promptTokenCount"]
    return {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": read, "totalTokenCount": read},
        **_identity(context),
    }


def _identity(context: Context) -> dict[str, str]:
    return {"modelVersion": context.model, "responseId": context.reply_id or "emulated"}


@rule("GEM-25")
def _parts(reply: Reply, body: contents.Body, context: Context) -> list[dict[str, Any]]:
    shown = contents.settings_of(body).get("thinking_config", {}).get("include_thoughts") is True
    thinks = prompt.thinks(body, context)
    parts = [
        _part(piece, index, context)
        for index, piece in enumerate(reply.pieces)
        if not isinstance(piece, Think) or (shown and thinks)
    ]
    if thinks:
        _sign(parts, context)
    return parts


def _part(piece: Piece, index: int, context: Context) -> dict[str, Any]:
    match piece:
        case Say(text):
            return {"text": text}
        case Think(text):
            return {"text": text, "thought": True}
        case Call(name, arguments):
            call: dict[str, Any] = {"name": name, "args": dict(arguments)}
            if context.facts.get("generation") == 3 and context.platform != "vertex":  # VTX-02
                call["id"] = digest([context.reply_id, index])[:8]
            return {"functionCall": call}


def _sign(parts: list[dict[str, Any]], context: Context) -> None:
    """The first call of a step carries the signature; without calls the last text does, from Gemini 3 on."""
    called = next((part for part in parts if "functionCall" in part), None)
    if called is not None:
        called["thoughtSignature"] = thoughts.sign({"function_call": called["functionCall"]}, context)
    elif context.facts.get("generation") == 3:
        answer = next((part for part in reversed(parts) if not part.get("thought")), None)
        if answer is not None:
            answer["thoughtSignature"] = thoughts.sign(answer, context)


@rule("GEM-56")
def _usage(pieces: tuple[Piece, ...], body: contents.Body, context: Context) -> dict[str, Any]:
    read = size(prompt.segments(cached_contents.whole(body, context)))
    thinks = prompt.thinks(body, context)
    thought = sum(piece_tokens(piece) for piece in pieces if isinstance(piece, Think) and thinks)
    answered = sum(piece_tokens(piece) for piece in pieces if not isinstance(piece, Think))
    usage: dict[str, Any] = {
        "promptTokenCount": read,
        "candidatesTokenCount": answered,
        "totalTokenCount": read + answered + thought,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": read}],
    }
    if thought:
        usage["thoughtsTokenCount"] = thought
    cached = max(context.cached_tokens, cached_contents.tokens_read(body, context))
    if cached:
        usage["cachedContentTokenCount"] = min(cached, read)
    return usage

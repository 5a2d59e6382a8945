"""The paths of an Ollama server: native chat, /v1, models and embeddings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators.context import Context
from segue.emulators.http import BadJsonError, Request, Response, Route, json_response, stream_response
from segue.emulators.ollama import (
    checks,
    compat,
    compat_replies,
    embeddings,
    errors,
    gojson,
    management,
    replies,
    window,
)
from segue.emulators.openai_chat.routes import model_of
from segue.emulators.refusal import Refusal
from segue.emulators.rules import first_enforced

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

Complaints: TypeAlias = Callable[[object, Context], Iterator[Refusal]]

_UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "m": 60,
    "h": 3600,
}


def _accepted(
    request: Request, emulator: Emulator, complaints: Complaints, platform: str
) -> tuple[dict[str, Any], Context] | Response:
    """The body and its circumstances, or the answer that refuses it."""
    # The store must exist before the checks look for it in the provider's memory.
    management.store_of(emulator)
    context = emulator.context(request, provider="ollama", platform=platform)
    try:
        body = request.json()
    except BadJsonError:
        return errors.refuse(Refusal(rule="OLL-11", message=gojson.not_json(request.body)), context)
    context = emulator.context(request, provider="ollama", model=model_of(body), platform=platform)
    refusal = first_enforced(complaints(body, context), context)
    return errors.refuse(refusal, context) if refusal is not None else (body, context)


def chat(request: Request, emulator: Emulator) -> Response:
    accepted = _accepted(request, emulator, checks.complaints, "api")
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    kept = seconds(body.get("keep_alive"))
    _load(emulator, body, context, kept)
    if not body.get("messages"):
        return json_response(replies.loaded(body, context, unload=kept == 0))
    reply = emulator.reply(replies.prompt_of(body, context))
    if body.get("stream") is False:
        return json_response(replies.whole(reply, body, context))
    lines = replies.stream(reply, body, context)
    return stream_response(lines, content_type=management.NDJSON, delay=reply.delay)


def chat_completions(request: Request, emulator: Emulator) -> Response:
    accepted = _accepted(request, emulator, compat.complaints, errors.COMPATIBLE)
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    native = compat.translated(body)
    _load(emulator, native, context, None)
    reply = emulator.reply(replies.prompt_of(native, context))
    if body.get("stream") is True:
        chunks = compat_replies.stream(reply, body, context)
        return stream_response(chunks, content_type="text/event-stream", delay=reply.delay)
    return json_response(compat_replies.whole(reply, body, context))


def _load(emulator: Emulator, body: Mapping[str, Any], context: Context, keep_alive: float | None) -> None:
    management.store_of(emulator).load(
        context.model, now=emulator.clock(), keep_alive=keep_alive, context=window.size(body, context)
    )


def seconds(keep_alive: object) -> float | None:
    """OLL-13: a number is seconds, a string Go's notation for durations."""
    if isinstance(keep_alive, int | float):
        return float(keep_alive)
    if not isinstance(keep_alive, str):
        return None
    pieces = re.findall(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", keep_alive)
    total = sum(float(amount) * _UNITS[unit] for amount, unit in pieces)
    return -total if keep_alive.startswith("-") else total


ROUTES: list[Route] = [
    ("GET", "/", management.alive),
    ("HEAD", "/", management.alive),
    ("POST", "/api/chat", chat),
    ("GET", "/api/tags", management.tags),
    ("POST", "/api/show", management.show),
    ("POST", "/api/pull", management.pull),
    ("DELETE", "/api/delete", management.delete),
    ("GET", "/api/ps", management.running),
    ("GET", "/api/version", management.version),
    ("POST", "/api/embed", embeddings.embed),
    ("POST", "/api/embeddings", embeddings.embed_prompt),
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", management.list_models),
    ("GET", "/v1/models/{model:path}", management.show_model),
    ("POST", "/v1/embeddings", embeddings.embed_compatibly),
]

"""`/v1/messages`, `/v1/messages/count_tokens` and `/v1/models`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.anthropic import checks, errors, limits, replies, typed_blocks
from segue.emulators.anthropic.prompt import cached_segments, prompt, segments, size
from segue.emulators.http import BadJsonError, Request, Response, Route, json_response, stream_response
from segue.emulators.model_facts import facts_for, listed
from segue.emulators.rules import Context, Refusal, first_enforced, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PROVIDER = "anthropic"
CREATED = "2026-01-01T00:00:00Z"


def messages(request: Request, emulator: Emulator) -> Response:
    body, context, refusal = _read(request, emulator)
    refusal = refusal or first_enforced(checks.complaints(body, context), context)
    if refusal is not None:
        return errors.refuse(refusal, context)
    marked = cached_segments(body)
    if size(marked) >= context.facts.get("cache_minimum", 0):
        emulator.remember(PROVIDER, context, marked)
    reply = emulator.reply(prompt(body, context))
    headers = errors.headers(None, context)
    if body.get("stream") is True:
        return stream_response(replies.stream(reply, body, context), headers=headers, delay=reply.delay)
    return json_response(replies.whole(reply, body, context), headers=headers)


@rule("ANT-96")
def count_tokens(request: Request, emulator: Emulator) -> Response:
    body, context, refusal = _read(request, emulator)
    refusal = refusal or first_enforced(checks.count_complaints(body, context), context)
    if refusal is not None:
        return errors.refuse(refusal, context)
    return json_response({"input_tokens": size(segments(body))}, headers=errors.headers(None, context))


def _read(request: Request, emulator: Emulator) -> tuple[Any, Context, Refusal | None]:
    """The body and its circumstances, or why it was not even read: credentials, size, version, JSON."""
    context = emulator.context(request, provider=PROVIDER)
    refusal = (
        errors.credentials(request, emulator)
        or limits.body_too_large(len(request.body))
        or first_enforced(checks.header_complaints(context), context)
    )
    if refusal is not None:
        return None, context, refusal
    try:
        body = request.json()
    except BadJsonError as error:
        return None, context, errors.not_json(str(error))
    fields = typed_blocks.record_of(body)
    context = emulator.context(
        request,
        provider=PROVIDER,
        model=typed_blocks.text_of(fields.get("model")),
        segments=cached_segments(fields),
    )
    return body, context, None


def _model(name: str) -> dict[str, Any]:
    facts = facts_for(PROVIDER, name)
    return {
        "type": "model",
        "id": name,
        "display_name": name.replace("-", " ").title(),
        "created_at": CREATED,
        "max_input_tokens": facts.get("context"),
        "max_tokens": facts.get("max_output"),
    }


@rule("ANT-95")
def list_models(request: Request, emulator: Emulator) -> Response:
    context = emulator.context(request, provider=PROVIDER)
    refusal = errors.credentials(request, emulator) or first_enforced(_paging(request), context)
    if refusal is not None:
        return errors.refuse(refusal, context)
    names = list(listed(PROVIDER))
    after, before = request.query.get("after_id"), request.query.get("before_id")
    if after in names:
        names = names[names.index(after) + 1 :]
    if before in names:
        names = names[: names.index(before)]
    page = names[: int(request.query.get("limit", "20"))]
    answer = {
        "data": [_model(name) for name in page],
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
        "has_more": len(page) < len(names),
    }
    return json_response(answer, headers=errors.headers(None, context))


def _paging(request: Request) -> list[Refusal]:
    limit = request.query.get("limit", "20")
    if limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= 1000:
        return []
    return [Refusal("ANT-95", "limit: Input should be a valid integer between 1 and 1000")]


@rule("ANT-95")
def show_model(request: Request, emulator: Emulator) -> Response:
    name = request.params["model"]
    context = emulator.context(request, provider=PROVIDER, model=name)
    refusal = errors.credentials(request, emulator)
    if refusal is None and not context.facts:
        refusal = Refusal("ANT-95", f"model: {name}", status=404, type="not_found_error")
    if refusal is not None:
        return errors.refuse(refusal, context)
    return json_response(_model(name), headers=errors.headers(None, context))


def reachable(request: Request, emulator: Emulator) -> Response:  # noqa: ARG001 — a handler
    """What clients ask at their start to see whether anybody is there; it takes no key."""
    return Response()


ROUTES: list[Route] = [
    ("HEAD", "/", reachable),
    ("HEAD", "/api/hello", reachable),
    ("GET", "/api/hello", reachable),
    ("POST", "/v1/messages", messages),
    ("POST", "/v1/messages/count_tokens", count_tokens),
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{model}", show_model),
]

"""`/v1/messages`, `/v1/messages/count_tokens` and `/v1/models`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.emulators.anthropic import checks, replies, threads
from segue.emulators.anthropic.errors import ERRORS
from segue.emulators.anthropic.prompt import cached_segments, prompt, segments
from segue.emulators.http import Request, Response, Route, json_response, reply_response
from segue.emulators.model.model_facts import facts_for, listed
from segue.emulators.model.prompt_cache import size
from segue.emulators.request_checks import Check, admitted, permitted
from segue.emulators.rules import Context, Refusal, RefusedError, enforce, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PROVIDER = "anthropic"
CREATED = "2026-01-01T00:00:00Z"


def messages(request: Request, emulator: Emulator) -> Response:
    memory = emulator.memory(PROVIDER)
    memory.setdefault(threads.HELD, {})
    body, context = _admitted(request, emulator, checks.complaints)
    read = threads.whole(body, context)
    offering = threads.with_offered_tools(read)
    emulator.remember(PROVIDER, context, cached_segments(offering))
    reply = emulator.reply(prompt(offering, context))
    answer = reply_response(reply, offering, context, ERRORS, whole=replies.whole, stream=replies.stream)
    if "thread" not in body:
        return answer
    kept = body, read, replies.whole(reply, read, context), memory, context.now
    if isinstance(answer.body, bytes):
        threads.keep(*kept)
        return answer
    return structs.replace(answer, body=threads.then_keep(answer.body, *kept))


@rule("ANT-96")
def count_tokens(request: Request, emulator: Emulator) -> Response:
    body, context = _admitted(request, emulator, checks.count_complaints)
    return json_response({"input_tokens": size(segments(body))}, headers=ERRORS.headers(None, context))


def _admitted(request: Request, emulator: Emulator, complaints: Check) -> tuple[dict[str, Any], Context]:
    unread, marked = checks.unread_complaints, cached_segments
    return admitted(request, emulator, ERRORS, complaints, marked, unread=unread, remember=False)


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
    context = permitted(request, emulator, ERRORS)
    enforce(_paging(request), context)
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
    return json_response(answer, headers=ERRORS.headers(None, context))


def _paging(request: Request) -> list[Refusal]:
    limit = request.query.get("limit", "20")
    if limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= 1000:
        return []
    return [Refusal("ANT-95", "limit: Input should be a valid integer between 1 and 1000")]


@rule("ANT-95")
def show_model(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    if not context.facts:
        refusal = Refusal("ANT-95", f"model: {context.model}", status=404, type="not_found_error")
        raise RefusedError(refusal, context)
    return json_response(_model(context.model), headers=ERRORS.headers(None, context))


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

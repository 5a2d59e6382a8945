"""`/v1/chat/completions`, `/v1/models` and `/v1/embeddings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.http import Request, Response, Route, json_response, reply_response
from segue.emulators.model.model_facts import listed
from segue.emulators.openai_chat import checks, embeddings, replies
from segue.emulators.openai_chat.errors import ERRORS
from segue.emulators.openai_chat.prompt import prompt_of, segments_of
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Refusal, RefusedError, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

CREATED = 1_770_933_892


def chat_completions(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, checks.complaints, segments_of)
    thinking = bool(context.facts.get("reasoning")) and body.get("reasoning_effort") != "none"
    reply = emulator.reply(prompt_of(body, provider="openai", thinking=thinking))
    return reply_response(reply, body, context, ERRORS, whole=replies.whole, stream=replies.stream)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "openai"}


@rule("OAI-05", "H")
def list_models(request: Request, emulator: Emulator) -> Response:
    permitted(request, emulator, ERRORS)
    return json_response({"object": "list", "data": [_model(name) for name in listed("openai")]})


def catalog(request: Request, emulator: Emulator) -> Response:
    """The same list as GitHub has it: without an envelope, beside the API."""
    permitted(request, emulator, ERRORS)
    return json_response([{"id": name, "name": name, "publisher": "OpenAI"} for name in listed("openai")])


@rule("OAI-05", "H")
def show_model(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    if not context.facts:
        text = f"The model '{context.model}' does not exist"
        refusal = Refusal("OAI-05", text, status=404, param="model", code="model_not_found")
        raise RefusedError(refusal, context)
    return json_response(_model(context.model), headers=ERRORS.headers(None, context))


@rule("OAI-07", "H")
def embed(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, embeddings.complaints)
    return json_response(embeddings.whole(body, context), headers=ERRORS.headers(None, context))


ROUTES: list[Route] = [
    ("GET", "/catalog/models", catalog),
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{model:path}", show_model),
    ("POST", "/v1/embeddings", embed),
]

"""`/v1/chat/completions`, `/v1/models` and `/v1/embeddings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.admission import admitted
from segue.emulators.http import Request, Response, Route, json_response, stream_response
from segue.emulators.model_facts import facts_for, listed
from segue.emulators.openai_chat import checks, embeddings, errors, replies
from segue.emulators.openai_chat.profile import OPENAI, Profile
from segue.emulators.openai_chat.prompt import prompt_of, segments_of
from segue.emulators.rules import Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

CREATED = 1_770_933_892


def chat_completions(request: Request, emulator: Emulator) -> Response:
    return answer(request, emulator, OPENAI)


def answer(request: Request, emulator: Emulator, profile: Profile) -> Response:
    """One chat completion of any server that `profile` describes."""
    provider = profile.provider
    accepted = admitted(
        request,
        emulator,
        provider,
        errors,
        lambda body, context: checks.complaints(body, context, profile),
        lambda body, _: segments_of(body),
    )
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    thinking = bool(context.facts.get("reasoning")) and body.get("reasoning_effort") != "none"
    reply = emulator.reply(prompt_of(body, provider=provider, thinking=thinking))
    headers = errors.headers(None, context)
    if body.get("stream") is True:
        portions = replies.stream(reply, body, context, profile)
        return stream_response(portions, headers=headers, delay=reply.delay)
    return json_response(replies.whole(reply, body, context, profile), headers=headers)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "openai"}


@rule("OAI-05", "H")
def list_models(request: Request, emulator: Emulator) -> Response:
    context = emulator.context(request, provider="openai")
    refusal = errors.credentials(request, emulator)
    if refusal is not None:
        return errors.refuse(refusal, context)
    return json_response({"object": "list", "data": [_model(name) for name in listed("openai")]})


@rule("OAI-05", "H")
def show_model(request: Request, emulator: Emulator) -> Response:
    name = request.params["model"]
    context = emulator.context(request, provider="openai", model=name)
    refusal = errors.credentials(request, emulator)
    if refusal is None and not facts_for("openai", name):
        refusal = Refusal(
            "OAI-05", f"The model '{name}' does not exist", status=404, param="model", code="model_not_found"
        )
    if refusal is not None:
        return errors.refuse(refusal, context)
    return json_response(_model(name), headers=errors.headers(None, context))


@rule("OAI-07", "H")
def embed(request: Request, emulator: Emulator) -> Response:
    accepted = admitted(request, emulator, "openai", errors, embeddings.complaints)
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    return json_response(embeddings.whole(body, context), headers=errors.headers(None, context))


ROUTES: list[Route] = [
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{model:path}", show_model),
    ("POST", "/v1/embeddings", embed),
]

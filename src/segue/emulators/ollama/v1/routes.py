"""`/v1/chat/completions`, `/v1/models` and `/v1/embeddings` of an Ollama server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.emulators.http import Request, Response, Route, json_response, stream_response
from segue.emulators.model import model_facts
from segue.emulators.ollama import embeddings, models
from segue.emulators.ollama.models import Installed, store_of
from segue.emulators.ollama.replies import prompt_of
from segue.emulators.ollama.v1 import checks, replies
from segue.emulators.ollama.v1.errors import ERRORS
from segue.emulators.openai_chat.embeddings import listed
from segue.emulators.openai_chat.prompt import schema_in
from segue.emulators.rules import Refusal, RefusedError

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator


def chat_completions(request: Request, emulator: Emulator) -> Response:
    body, context = models.accepted(request, emulator, checks.complaints, ERRORS)
    translated = checks.translated(body)
    models.load(emulator, translated, context)
    prompt = structs.replace(prompt_of(translated, context), schema=schema_in(body.get("response_format")))
    reply = emulator.reply(prompt)
    if body.get("stream") is True and not context.sends_whole:
        chunks = replies.stream(reply, body, context)
        return stream_response(chunks, content_type="text/event-stream", delay=reply.delay)
    return json_response(replies.whole(reply, body, context))


def _listed(model: Installed) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": model.since, "owned_by": "library"}


def list_models(request: Request, emulator: Emulator) -> Response:  # noqa: ARG001 — a handler
    models = store_of(emulator)
    return json_response({"object": "list", "data": [_listed(model) for model in models]})


def show_model(request: Request, emulator: Emulator) -> Response:
    model = store_of(emulator).find(request.params["model"])
    if model is None:
        refusal = models.not_found(request.params["model"])
        raise RefusedError(refusal, emulator.context(request, provider="ollama"))
    return json_response(_listed(model))


def embed(request: Request, emulator: Emulator) -> Response:
    body, context = models.accepted(request, emulator, embeddings.complaints, ERRORS)
    texts = embeddings.texts_of(body)
    if not texts:
        raise RefusedError(Refusal("OLL-40", "invalid input"), context)
    vectors = [embeddings.vector(text, body, context) for text in texts]
    return json_response(listed(vectors, body, context, tokens=sum(map(model_facts.count_tokens, texts))))


ROUTES: list[Route] = [
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{model:path}", show_model),
    ("POST", "/v1/embeddings", embed),
]

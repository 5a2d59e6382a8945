"""`models/{model}:generateContent`, `:streamGenerateContent`, `:countTokens`, `:embedContent`, and the model list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.gemini import cached_contents, checks, replies
from segue.emulators.gemini.contents import Body, refused
from segue.emulators.gemini.errors import ERRORS
from segue.emulators.gemini.prompt import prompt, segments
from segue.emulators.http import Request, Response, Route, json_response, stream_response
from segue.emulators.model.model_facts import facts_for, listed
from segue.emulators.model.prompt_cache import size as tokens_of
from segue.emulators.openai_chat.embeddings import embedding
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, enforce, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.emulators.emulator import Emulator
    from segue.emulators.model.model_reply import Reply

PROVIDER = "gemini"
PAGE = 50


def generate(request: Request, emulator: Emulator) -> Response:
    body, context, reply = _replied(request, emulator)
    return json_response(replies.whole(reply, body, context), headers=ERRORS.headers(None, context))


@rule("GEM-50")
def stream(request: Request, emulator: Emulator) -> Response:
    """Without `alt=sse` a stream is a JSON array, and so is its error."""
    if emulator.sends_whole:
        return generate(request, emulator)
    if request.query.get("alt") == "sse":
        body, context, reply = _replied(request, emulator)
        events = replies.stream(reply, body, context)
        return stream_response(events, content_type="text/event-stream", delay=reply.delay)
    try:
        body, context, reply = _replied(request, emulator)
    except RefusedError as stopped:
        refusal, context = stopped.refusal, stopped.context
        headers = ERRORS.headers(refusal, context)
        in_array = [ERRORS.envelope(refusal, context)]
        return json_response(in_array, status=refusal.status, headers=headers, refusal=refusal)
    portions = replies.array(reply, body, context)
    return stream_response(portions, content_type="application/json; charset=UTF-8", delay=reply.delay)


def _replied(request: Request, emulator: Emulator) -> tuple[dict[str, Any], Context, Reply]:
    emulator.memory(PROVIDER).setdefault(cached_contents.HELD, {})
    alone = emulator.context(request, provider=PROVIDER)

    def read_by_model(body: Mapping[str, Any]) -> list[object]:
        """With what is cached: it is read and counted like the rest."""
        return segments(cached_contents.whole(checks.parsed(body, "GenerateContentRequest")[0], alone))

    body, context = admitted(request, emulator, ERRORS, checks.complaints, read_by_model)
    read, _ = checks.parsed(body, "GenerateContentRequest")
    return body, context, emulator.reply(prompt(cached_contents.whole(read, context), context))


@rule("GEM-46")
def count(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, checks.count_complaints)
    read, _ = checks.parsed(body, "CountTokensRequest")
    asked = read.get("generate_content_request") or read
    enforce(cached_contents.complaints(asked, context), context)
    total = tokens_of(segments(cached_contents.whole(asked, context)))
    details = [{"modality": "TEXT", "tokenCount": total}]
    answer = {"totalTokens": total, "promptTokensDetails": details}
    return json_response(answer, headers=ERRORS.headers(None, context))


@rule("GEM-47")
def embed(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, checks.embed_complaints)
    read, _ = checks.parsed(body, "EmbedContentRequest")
    answer = {"embedding": _embedding(read, context.facts)}
    return json_response(answer, headers=ERRORS.headers(None, context))


@rule("GEM-47")
def embed_batch(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, checks.batch_complaints)
    read, _ = checks.parsed(body, "BatchEmbedContentsRequest")
    answer = {"embeddings": [_embedding(one, context.facts) for one in read["requests"]]}
    return json_response(answer, headers=ERRORS.headers(None, context))


def _embedding(request: Body, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A vector of the length that was asked for (GEM-47)."""
    most = facts.get("embedding", 768)
    size = int(request.get("output_dimensionality") or most)
    text = " ".join(part.get("text", "") for part in request.get("content", {}).get("parts", ()))
    return {"values": embedding(text, min(max(size, 1), most)).tolist()}


def _model(name: str) -> dict[str, Any]:
    facts = facts_for(PROVIDER, name)
    generates = ["generateContent", "countTokens", "createCachedContent", "batchGenerateContent"]
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name.replace("-", " ").title(),
        "inputTokenLimit": facts.get("context"),
        "outputTokenLimit": facts.get("max_output", 1),
        "supportedGenerationMethods": ["embedContent", "countTokens"]
        if facts.get("embedding")
        else generates,
        "temperature": 1,
        "topP": 0.95,
        "topK": 64,
        "maxTemperature": 2,
        "thinking": bool(facts.get("thinks")),
    }


@rule("GEM-45")
def list_models(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    enforce(_bad_pages(request), context)
    names = listed(PROVIDER)
    start, amount = int(request.query.get("pageToken") or "0"), int(request.query.get("pageSize") or PAGE)
    end = start + (amount or PAGE)
    answer: dict[str, Any] = {"models": [_model(name) for name in names[start:end]]}
    if end < len(names):
        answer["nextPageToken"] = str(end)
    return json_response(answer, headers=ERRORS.headers(None, context))


def _bad_pages(request: Request) -> Complaints:
    for name in ("pageSize", "pageToken"):
        value = request.query.get(name) or "0"
        if not (value.isascii() and value.isdigit()) or len(value) > 9:
            yield refused("GEM-45", f"Invalid value at '{name}' (TYPE_INT32), \"{value}\"")


@rule("GEM-45")
def show_model(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    if not context.facts:
        text = f"Model is not found: models/{context.model} for api version v1beta"
        raise RefusedError(Refusal("GEM-45", text, status=404, type="NOT_FOUND"), context)
    return json_response(_model(context.model), headers=ERRORS.headers(None, context))


METHODS = {
    "generateContent": generate,
    "streamGenerateContent": stream,
    "countTokens": count,
    "embedContent": embed,
    "batchEmbedContents": embed_batch,
}
PREFIXES = (
    "/v1beta/models/{model}",
    "/v1/models/{model}",
    "/v1/projects/{project}/locations/{location}/publishers/google/models/{model}",
    "/v1beta1/projects/{project}/locations/{location}/publishers/google/models/{model}",
)
ROUTES: list[Route] = [
    *cached_contents.ROUTES,
    *(("POST", f"{prefix}:{method}", handler) for prefix in PREFIXES for method, handler in METHODS.items()),
    *(("GET", f"/{version}/models", list_models) for version in ("v1beta", "v1")),
    *(("GET", f"/{version}/models/{{model}}", show_model) for version in ("v1beta", "v1")),
]

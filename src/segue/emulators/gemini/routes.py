"""`models/{model}:generateContent`, `:streamGenerateContent`, `:countTokens`, `:embedContent`, and the model list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators.gemini import checks, embeddings, errors, replies
from segue.emulators.gemini.prompt import prompt, segments, size
from segue.emulators.http import BadJsonError, Request, Response, Route, json_response, stream_response
from segue.emulators.model_facts import facts_for, listed
from segue.emulators.rules import Context, Refusal, first_enforced, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PROVIDER = "gemini"
PAGE = 50
Complaints: TypeAlias = Callable[[object, Context], Iterator[Refusal]]


def generate(request: Request, emulator: Emulator) -> Response:
    body, context, refusal = _accept(request, emulator, checks.complaints)
    if refusal is not None:
        return errors.refuse(refusal, context)
    reply = emulator.reply(_remembered(body, context, emulator))
    return json_response(replies.whole(reply, body, context), headers=errors.headers(None, context))


@rule("GEM-50")
def stream(request: Request, emulator: Emulator) -> Response:
    events = request.query.get("alt") == "sse"
    body, context, refusal = _accept(request, emulator, checks.complaints)
    if refusal is not None:
        return errors.refuse(refusal, context, in_array=not events)
    reply = emulator.reply(_remembered(body, context, emulator))
    if events:
        portions = replies.stream(reply, body, context)
        return stream_response(portions, content_type="text/event-stream", delay=reply.delay)
    portions = replies.array(reply, body, context)
    return stream_response(portions, content_type="application/json; charset=UTF-8", delay=reply.delay)


def _remembered(body: object, context: Context, emulator: Emulator) -> Any:
    read, _ = checks.parsed(body, "GenerateContentRequest")
    emulator.remember(PROVIDER, context, segments(read))
    return prompt(read, context)


@rule("GEM-46")
def count(request: Request, emulator: Emulator) -> Response:
    body, context, refusal = _accept(request, emulator, checks.count_complaints)
    if refusal is not None:
        return errors.refuse(refusal, context)
    read, _ = checks.parsed(body, "CountTokensRequest")
    total = size(segments(read.get("generate_content_request") or read))
    details = [{"modality": "TEXT", "tokenCount": total}]
    answer = {"totalTokens": total, "promptTokensDetails": details}
    return json_response(answer, headers=errors.headers(None, context))


@rule("GEM-47")
def embed(request: Request, emulator: Emulator) -> Response:
    body, context, refusal = _accept(request, emulator, checks.embed_complaints)
    if refusal is not None:
        return errors.refuse(refusal, context)
    read, _ = checks.parsed(body, "EmbedContentRequest")
    answer = {"embedding": embeddings.embedding(read, context.facts)}
    return json_response(answer, headers=errors.headers(None, context))


@rule("GEM-47")
def embed_batch(request: Request, emulator: Emulator) -> Response:
    body, context, refusal = _accept(request, emulator, checks.batch_complaints)
    if refusal is not None:
        return errors.refuse(refusal, context)
    read, _ = checks.parsed(body, "BatchEmbedContentsRequest")
    answer = {"embeddings": [embeddings.embedding(one, context.facts) for one in read["requests"]]}
    return json_response(answer, headers=errors.headers(None, context))


def _accept(
    request: Request, emulator: Emulator, complaints: Complaints
) -> tuple[Any, Context, Refusal | None]:
    model = request.params["model"]
    platform = "vertex" if "/publishers/" in request.path else "api"
    context = emulator.context(request, provider=PROVIDER, model=model, platform=platform)
    refusal = errors.credentials(request, emulator)
    if refusal is not None:
        return None, context, refusal
    try:
        body = request.json()
    except BadJsonError as error:
        return None, context, errors.not_json(str(error))
    read, _ = checks.parsed(body, "GenerateContentRequest")
    context = emulator.context(
        request, provider=PROVIDER, model=model, platform=platform, segments=segments(read)
    )
    return body, context, first_enforced(complaints(body, context), context)


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
    context = emulator.context(request, provider=PROVIDER)
    refusal = errors.credentials(request, emulator) or _bad_page(request)
    if refusal is not None:
        return errors.refuse(refusal, context)
    names = listed(PROVIDER)
    start, amount = int(request.query.get("pageToken") or "0"), int(request.query.get("pageSize") or PAGE)
    end = start + (amount or PAGE)
    answer: dict[str, Any] = {"models": [_model(name) for name in names[start:end]]}
    if end < len(names):
        answer["nextPageToken"] = str(end)
    return json_response(answer, headers=errors.headers(None, context))


def _bad_page(request: Request) -> Refusal | None:
    for name in ("pageSize", "pageToken"):
        value = request.query.get(name) or "0"
        if not (value.isascii() and value.isdigit()) or len(value) > 9:
            text = f"Invalid value at '{name}' (TYPE_INT32), \"{value}\""
            return Refusal("GEM-45", text, type="INVALID_ARGUMENT")
    return None


@rule("GEM-45")
def show_model(request: Request, emulator: Emulator) -> Response:
    name = request.params["model"]
    context = emulator.context(request, provider=PROVIDER, model=name)
    refusal = errors.credentials(request, emulator)
    if refusal is None and not context.facts:
        text = f"Model is not found: models/{name} for api version v1beta"
        refusal = Refusal("GEM-45", text, status=404, type="NOT_FOUND")
    if refusal is not None:
        return errors.refuse(refusal, context)
    return json_response(_model(name), headers=errors.headers(None, context))


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
    *(("POST", f"{prefix}:{method}", handler) for prefix in PREFIXES for method, handler in METHODS.items()),
    *(("GET", f"/{version}/models", list_models) for version in ("v1beta", "v1")),
    *(("GET", f"/{version}/models/{{model}}", show_model) for version in ("v1beta", "v1")),
]

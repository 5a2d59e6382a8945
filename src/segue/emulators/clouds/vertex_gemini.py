"""Gemini at Google Cloud: its wire with a token instead of a key, without ids, and with another count of tokens.

`…/publishers/google/models/{model}:generateContent`, `:streamGenerateContent`, `:countTokens`, vectors, and the list of models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.emulator import key_of
from segue.emulators.gemini import checks, routes
from segue.emulators.gemini.contents import refused
from segue.emulators.gemini.errors import ERRORS
from segue.emulators.gemini.prompt import segments
from segue.emulators.http import BadJsonError, Handler, Request, Response, Route, json_response
from segue.emulators.model import model_facts
from segue.emulators.model.model_facts import listed
from segue.emulators.model.prompt_cache import size
from segue.emulators.openai_chat.embeddings import embedding
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PLACE = "/projects/{project}/locations/{location}/publishers/google/models/{model}"
EXPRESS = "/publishers/google/models/{model}"
FIRST_GEMINI = "gemini-embedding-001"
ONLY_ELSEWHERE = ("store",)
"""Fields of the Developer API that Vertex does not know (VTX-04)."""


@rule("VTX-08")
def bearer_of(request: Request, emulator: Emulator) -> None:
    """A project is asked with a token; only express mode, which has no project, takes a key."""
    context = emulator.context(request, provider="gemini", model=request.params.get("model", ""))
    express = "project" not in request.params
    has_token = request.headers.get("authorization", "").lower().startswith("bearer ")
    if not (has_token or (express and request.headers.get("x-goog-api-key"))):
        text = (
            "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or"
            " other valid authentication credential."
        )
        raise RefusedError(Refusal("VTX-08", text, status=401, type="UNAUTHENTICATED"), context)
    if emulator.keys is not None and key_of(request) not in emulator.keys:
        text = (
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other"
            " valid authentication credential."
        )
        raise RefusedError(Refusal("VTX-08", text, status=401, type="UNAUTHENTICATED"), context)


def _with_token(handler: Handler) -> Handler:
    def asked(request: Request, emulator: Emulator) -> Response:
        bearer_of(request, emulator)
        elsewhere(request, emulator)
        return handler(request, emulator)

    return asked


@rule("VTX-04")
def elsewhere(request: Request, emulator: Emulator) -> None:
    try:
        body = request.json() if request.body else {}
    except BadJsonError:
        return  # the handler says so
    strange = [name for name in ONLY_ELSEWHERE if isinstance(body, dict) and name in body]
    if strange:
        context = emulator.context(request, provider="gemini", model=request.params.get("model", ""))
        text = f'Invalid JSON payload received. Unknown name "{strange[0]}": Cannot find field.'
        raise RefusedError(Refusal("VTX-04", text, type="INVALID_ARGUMENT"), context)


@rule("VTX-04")
def count(request: Request, emulator: Emulator) -> Response:
    """Contents, tools and the system prompt as they are; there is no envelope for a whole request."""
    body, context = admitted(request, emulator, ERRORS, count_complaints)
    read, _ = checks.parsed(body, "GenerateContentRequest")
    total = size(segments(read))
    return json_response(
        {"totalTokens": total, "totalBillableCharacters": 4 * total}, headers=ERRORS.headers(None, context)
    )


def count_complaints(body: object, context: Context) -> Complaints:
    fields = body if isinstance(body, dict) else {}
    if "generateContentRequest" in fields or "generate_content_request" in fields:
        text = 'Invalid JSON payload received. Unknown name "generateContentRequest": Cannot find field.'
        yield refused("VTX-04", text)
    del context
    read, faults = checks.parsed(body, "GenerateContentRequest")
    yield from checks.unreadable(faults)
    if not read.get("contents"):
        yield refused("VTX-04", "* CountTokensRequest.contents: contents is not specified")


def list_models(request: Request, emulator: Emulator) -> Response:
    permitted(request, emulator, ERRORS)
    models = [_model("google", name) for name in listed("gemini")]
    return json_response({"publisherModels": models})


def show_model(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    if not context.facts:
        text = f"Publisher Model `publishers/google/models/{context.model}` not found."
        raise RefusedError(Refusal("VTX-01", text, status=404, type="NOT_FOUND"), context)
    return json_response(_model("google", context.model))


def _model(publisher: str, name: str) -> dict[str, Any]:
    return {"name": f"publishers/{publisher}/models/{name}", "versionId": "001", "launchStage": "GA"}


@rule("VTX-09", "M")
def predict(request: Request, emulator: Emulator) -> Response:
    """Vectors of models of the first generation."""
    body, context = admitted(request, emulator, ERRORS, predict_complaints)
    length = (body.get("parameters") or {}).get("outputDimensionality") or context.facts["embedding"]
    predictions = [
        {
            "embeddings": {
                "values": embedding(instance["content"], int(length)).tolist(),
                "statistics": {
                    "truncated": False,
                    "token_count": model_facts.count_tokens(instance["content"]),
                },
            }
        }
        for instance in body["instances"]
    ]
    return json_response({"predictions": predictions}, headers=ERRORS.headers(None, context))


def predict_complaints(body: object, context: Context) -> Complaints:
    fields = body if isinstance(body, dict) else {}
    if not context.facts.get("embedding") or _has_own_method(context.model):
        yield refused("VTX-09", f"The model {context.model} does not support predict.")
    for name in fields.keys() - {"instances", "parameters"}:
        yield refused("VTX-09", f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
    instances = fields.get("instances")
    if not isinstance(instances, list) or not instances:
        yield refused("VTX-09", "Empty instances.")
        return
    if context.model == FIRST_GEMINI and len(instances) > 1:
        yield refused("VTX-09", f"{FIRST_GEMINI} takes one instance per prediction.")
    for instance in instances:
        if not isinstance(instance, dict) or not isinstance(instance.get("content"), str):
            yield refused("VTX-09", "Text instance must have a content field.")


@rule("VTX-09", "M")
def embed_content(request: Request, emulator: Emulator) -> Response:
    """Vectors of later models: one text, and settings in a field of their own."""
    body, context = admitted(request, emulator, ERRORS, embed_complaints)
    length = (body.get("embedContentConfig") or {}).get("outputDimensionality") or context.facts["embedding"]
    text = " ".join(part.get("text", "") for part in body["content"].get("parts", ()))
    vector = {"values": embedding(text, int(length)).tolist()}
    return json_response({"embedding": vector}, headers=ERRORS.headers(None, context))


def embed_complaints(body: object, context: Context) -> Complaints:
    fields = body if isinstance(body, dict) else {}
    if not context.facts.get("embedding") or not _has_own_method(context.model):
        yield refused("VTX-09", f"The model {context.model} does not support embedContent.")
    for name in fields.keys() - {"content", "embedContentConfig", "model"}:
        yield refused("VTX-09", f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
    if not isinstance(fields.get("content"), dict) or not fields["content"].get("parts"):
        yield refused("VTX-09", "* EmbedContentRequest.content: contents is not specified")


def _has_own_method(model: str) -> bool:
    return model.startswith("gemini-embedding-") and model != FIRST_GEMINI


METHODS: dict[str, Handler] = {
    "generateContent": routes.generate,
    "streamGenerateContent": routes.stream,
    "countTokens": count,
    "predict": predict,
    "embedContent": embed_content,
}
ROUTES: list[Route] = [
    *(
        ("POST", f"/{version}{place}:{method}", _with_token(handler))
        for version in ("v1", "v1beta1")
        for place in (PLACE, EXPRESS)
        for method, handler in METHODS.items()
    ),
    ("GET", "/v1beta1/publishers/google/models", _with_token(list_models)),
    ("GET", "/v1beta1/publishers/google/models/{model}", _with_token(show_model)),
]

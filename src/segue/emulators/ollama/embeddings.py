"""`/api/embed`, the older `/api/embeddings`, and `/v1/embeddings`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from segue.emulators import tokens
from segue.emulators.http import BadJsonError, Request, Response, json_response
from segue.emulators.ollama import checks, errors, gojson
from segue.emulators.ollama.management import store_of
from segue.emulators.openai_chat.embeddings import embedding
from segue.emulators.openai_chat.routes import model_of
from segue.emulators.refusal import Refusal
from segue.emulators.rules import first_enforced, rule

if TYPE_CHECKING:
    from segue.emulators.context import Context
    from segue.emulators.emulator import Emulator

_MAX_DIMENSIONS = 8192
_FIELDS: Mapping[str, gojson.Check] = {
    "model": gojson.STRING,
    "prompt": gojson.STRING,
    "truncate": gojson.BOOL,
    "dimensions": gojson.integer,
    "keep_alive": gojson.duration,
    "encoding_format": gojson.STRING,
}


@rule("OLL-40")
def complaints(body: object, context: Context) -> Iterator[Refusal]:
    """No limit on the number of inputs; only their type, the model, and their length when nothing may be cut."""
    if body is None:
        yield Refusal(rule="OLL-11", message="missing request body")
        return
    unreadable = [
        Refusal(rule="OLL-40", message=sentence)
        for sentence in gojson.decode(body, "EmbedRequest", "api.EmbedRequest", _FIELDS)
    ]
    yield from unreadable
    if unreadable or not isinstance(body, Mapping):
        return
    given = body.get("input")
    texts = given if isinstance(given, list) else [given or ""]
    if not all(isinstance(text, str) for text in texts):
        message = "invalid input" if context.platform == errors.COMPATIBLE else "invalid input type"
        yield Refusal(rule="OLL-40", message=message)
        return
    yield from checks.missing_model(body)
    yield from checks.unknown_model(body, context)
    longest = max(map(tokens.count, texts), default=0)
    if body.get("truncate") is False and longest > context.facts.get("context", longest):
        yield Refusal(rule="OLL-40", message="the input length exceeds the context length")


def _accepted(
    request: Request, emulator: Emulator, platform: str
) -> tuple[Mapping[str, Any], Context] | Response:
    store_of(emulator)
    context = emulator.context(request, provider="ollama", platform=platform)
    try:
        body = request.json()
    except BadJsonError:
        return errors.refuse(Refusal(rule="OLL-11", message=gojson.not_json(request.body)), context)
    context = emulator.context(request, provider="ollama", model=model_of(body), platform=platform)
    refusal = first_enforced(complaints(body, context), context)
    return errors.refuse(refusal, context) if refusal is not None else (body, context)


def _vector(text: str, body: Mapping[str, Any], context: Context) -> list[float]:
    size = body.get("dimensions") or context.facts.get("embedding", 4096)
    return embedding(text, min(max(size, 1), _MAX_DIMENSIONS)).tolist()


def embed(request: Request, emulator: Emulator) -> Response:
    accepted = _accepted(request, emulator, "api")
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    given = body.get("input")
    texts = given if isinstance(given, list) else [given] if given else []
    return json_response(
        {
            "model": context.model,
            "embeddings": [_vector(text, body, context) for text in texts],
            "total_duration": 14_143_917,
            "load_duration": 1_019_500,
            "prompt_eval_count": sum(map(tokens.count, texts)),
        }
    )


def embed_prompt(request: Request, emulator: Emulator) -> Response:
    """The older form: one text, and nothing for nothing."""
    accepted = _accepted(request, emulator, "api")
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    prompt = body.get("prompt")
    return json_response({"embedding": _vector(prompt, body, context) if prompt else []})


def embed_compatibly(request: Request, emulator: Emulator) -> Response:
    accepted = _accepted(request, emulator, errors.COMPATIBLE)
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    given = body.get("input")
    texts = given if isinstance(given, list) else [given] if given else []
    if not texts:
        return errors.refuse(Refusal(rule="OLL-40", message="invalid input"), context)
    counted = sum(map(tokens.count, texts))
    in_base64 = body.get("encoding_format") == "base64"
    size = body.get("dimensions") or context.facts.get("embedding", 4096)
    vectors = [embedding(text, min(max(size, 1), _MAX_DIMENSIONS)) for text in texts]
    data = [
        {
            "object": "embedding",
            "embedding": b64encode(vector.tobytes()).decode() if in_base64 else vector.tolist(),
            "index": index,
        }
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": counted, "total_tokens": counted}
    return json_response({"object": "list", "data": data, "model": context.model, "usage": usage})

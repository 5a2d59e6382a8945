"""`/api/embed` and the older `/api/embeddings`, and what `/v1/embeddings` shares with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from segue.emulators.http import Request, Response, json_response
from segue.emulators.model import model_facts
from segue.emulators.ollama import checks, gojson
from segue.emulators.ollama.models import accepted
from segue.emulators.openai_chat.embeddings import embedding
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from array import array

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
def complaints(body: object, context: Context) -> Complaints:
    """Any number of inputs; only their type, the model, and their length when nothing may be cut."""
    if body is None:
        yield Refusal("OLL-11", "missing request body")
        return
    unreadable = [
        Refusal("OLL-40", sentence)
        for sentence in gojson.decode(body, "EmbedRequest", "api.EmbedRequest", _FIELDS)
    ]
    yield from unreadable
    if unreadable or not isinstance(body, Mapping):
        return
    texts = texts_of(body)
    if not all(isinstance(text, str) for text in texts):
        yield Refusal("OLL-40", "invalid input type")
        return
    yield from checks.missing_model(body)
    yield from checks.unknown_model(body, context)
    longest = max(map(model_facts.count_tokens, texts), default=0)
    if body.get("truncate") is False and longest > context.facts.get("context", longest):
        yield Refusal("OLL-40", "the input length exceeds the context length")


def texts_of(body: Mapping[str, Any]) -> list[Any]:
    given = body.get("input")
    if isinstance(given, list):
        return given
    return [] if given is None or given == "" else [given]


def vector(text: str, body: Mapping[str, Any], context: Context) -> array[float]:
    size = body.get("dimensions") or context.facts.get("embedding", 4096)
    return embedding(text, min(max(size, 1), _MAX_DIMENSIONS))


def embed(request: Request, emulator: Emulator) -> Response:
    body, context = accepted(request, emulator, complaints)
    texts = texts_of(body)
    return json_response(
        {
            "model": context.model,
            "embeddings": [vector(text, body, context).tolist() for text in texts],
            "total_duration": 14_143_917,
            "load_duration": 1_019_500,
            "prompt_eval_count": sum(map(model_facts.count_tokens, texts)),
        }
    )


def embed_prompt(request: Request, emulator: Emulator) -> Response:
    """The older form: one text, and nothing for nothing."""
    body, context = accepted(request, emulator, complaints)
    prompt = body.get("prompt")
    return json_response({"embedding": vector(prompt, body, context).tolist() if prompt else []})

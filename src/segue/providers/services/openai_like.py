"""OpenAI's wire and the many servers that use it: models, embeddings, and the token count of Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from segue.providers.capabilities import ModelInfo, ModelType
from segue.providers.endpoint import in_path, moment, request_json, text, unreadable, whole
from segue.providers.models.catalog import EmbeddingLimits, catalog, type_of
from segue.providers.services import Counted, Services

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.providers.endpoint import Endpoint

_CONTEXTS = ("context_length", "context_window", "max_model_len", "max_context_length", "max_input_tokens")
"""What different servers call the window of a model."""
_TYPES: Mapping[str, ModelType] = {
    "chat": "chat",
    "language": "chat",
    "llm": "chat",
    "vlm": "chat",
    "embedding": "embedding",
    "embeddings": "embedding",
    "image": "image",
    "audio": "audio",
    "moderation": "moderation",
    "rerank": "other",
}
_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text", "truncation")
"""OAI-06: the fields of a request whose tokens can be counted; all others are about the output."""
_PER_MILLION = 1_000_000


def services(dialect: str) -> Services:
    limits = catalog().embeddings.get(dialect)
    return Services(
        list_models=list_models,
        show_model=show_model,
        embed=None if limits is None else embed,
        embedding_limits=limits or EmbeddingLimits(),
        count_tokens=count_tokens if dialect == "openai_responses" else None,
    )


# Models (OAI-05)


async def list_models(endpoint: Endpoint) -> list[ModelInfo]:
    answer = await endpoint.json("GET", endpoint.models_path or "/models")
    # Some servers omit the envelope.
    entries = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(entries, list):
        raise unreadable(endpoint, "GET /models", "it holds no list of models")
    return [model_info(entry, endpoint) for entry in entries if isinstance(entry, dict) and entry.get("id")]


async def show_model(endpoint: Endpoint, name: str) -> ModelInfo:
    entry = await request_json(endpoint, "GET", f"/models/{in_path(name)}", dict[str, Any])
    return model_info({**entry, "id": entry.get("id") or name}, endpoint)


def model_info(entry: Mapping[str, Any], endpoint: Endpoint) -> ModelInfo:
    """One entry of a list. OpenAI gives few facts, others more: the common ones are read."""
    name = str(entry["id"])
    top = entry.get("top_provider")
    limits = {**top, **entry} if isinstance(top, dict) else entry
    prices = entry.get("pricing")
    return ModelInfo(
        id=name,
        provider=endpoint.provider,
        name=text(entry.get("display_name")) or text(entry.get("name")) or name,
        type=_TYPES.get(text(entry.get("type")), type_of(name)),
        capabilities=_capabilities(entry),
        context=next((found for key in _CONTEXTS if (found := whole(entry.get(key)))), _trained(entry)),
        output=whole(limits.get("max_completion_tokens")),
        input_price=_price(prices, "prompt"),
        output_price=_price(prices, "completion"),
        modified_at=moment(entry.get("created")),
    )


def _trained(entry: Mapping[str, Any]) -> int | None:
    """llama.cpp reports the context that the model was trained for."""
    meta = entry.get("meta")
    return whole(meta.get("n_ctx_train")) if isinstance(meta, dict) else None


def _capabilities(entry: Mapping[str, Any]) -> tuple[str, ...]:
    architecture, parameters = entry.get("architecture"), entry.get("supported_parameters")
    modalities = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    known_parameters = parameters if isinstance(parameters, list) else []
    listed = {
        "tools": "tools" in known_parameters,
        "reasoning": "reasoning" in known_parameters or entry.get("supports_reasoning") is True,
        "json_schema": "structured_outputs" in known_parameters,
        "vision": (isinstance(modalities, list) and "image" in modalities)
        or entry.get("supports_image_in") is True,
    }
    return tuple(sorted(name for name, there in listed.items() if there))


def _price(prices: Any, key: str) -> float | None:
    """Some give dollars per token, as text."""
    value = prices.get(key) if isinstance(prices, dict) else None
    try:
        return float(value) * _PER_MILLION if isinstance(value, str) else None
    except ValueError:
        return None


# Embeddings (OAI-07)


class _Vector(Struct):
    embedding: list[float]
    index: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None


class _Vectors(Struct):
    data: list[_Vector]
    usage: _Usage | None = None


async def embed(endpoint: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
    return await embedded(endpoint, model, texts, {} if dimensions is None else {"dimensions": dimensions})


async def embedded(
    endpoint: Endpoint, model: str, texts: Sequence[str], fields: Mapping[str, Any]
) -> Counted:
    """The vectors of one request. `fields`: fields beside model and input."""
    body = {"model": model, "input": list(texts), **fields}
    answer = await request_json(endpoint, "POST", "/embeddings", _Vectors, body)
    numbered = [
        (place if vector.index is None else vector.index, vector.embedding)
        for place, vector in enumerate(answer.data)
    ]
    numbered.sort(key=lambda pair: pair[0])
    counted = answer.usage.prompt_tokens if answer.usage is not None else None
    return [vector for _, vector in numbered], counted


# Tokens (OAI-06)


class _Count(Struct):
    input_tokens: int


async def count_tokens(endpoint: Endpoint, model: str, body: bytes) -> int:
    fields = {**msgspec.json.decode(body), "model": model}
    counted = {name: fields[name] for name in _COUNTED if name in fields}
    return (await request_json(endpoint, "POST", "/responses/input_tokens", _Count, counted)).input_tokens

"""Bedrock: models, token counts and embeddings. Models are listed by another host of the same region than the one that runs
them; vectors are made by InvokeModel, in the form of whoever made the model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from segue.providers.capabilities import ModelInfo
from segue.providers.endpoint import in_path, request_json, text
from segue.providers.models.catalog import EmbeddingLimits, catalog, type_of
from segue.providers.services import Counted, Services
from segue.providers.services.anthropic import count_tokens as count_at_mantle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.providers.endpoint import Endpoint

_RUNTIME: Final = "://bedrock-runtime"
"""How its address begins, also that of the host for FIPS; the lists are without the word."""
_COUNTED: Final = ("messages", "system", "toolConfig", "additionalModelRequestFields")
"""AWS-09: the fields of a request whose tokens can be counted."""
_PAGE: Final = 1000
_INVOKED: Final = "bedrock_invoke"
_MANTLE: Final = "bedrock_mantle"
_COUNT_TOKENS: Final = 1
"""Of a reply that is never written, where a request must say how long it may be."""
_COHERE: Final = "cohere."
"""In the ids of its models; all other models that make vectors are Amazon's."""


def services(host: str) -> Services:
    if host == _MANTLE:
        return Services(list_models=list_at_mantle, count_tokens=count_at_mantle)
    return Services(
        list_models=list_models,
        count_tokens=count_messages if host == _INVOKED else count_tokens,
        embed=embed,
        embedding_limits=catalog().embeddings.get("converse", EmbeddingLimits()),
    )


class _Models(Struct, rename="camel"):
    model_summaries: list[dict[str, Any]] = []


class _Profiles(Struct, rename="camel"):
    inference_profile_summaries: list[dict[str, Any]] = []
    next_token: str | None = None


async def list_models(endpoint: Endpoint) -> list[ModelInfo]:
    """Inference profiles, and the models that take requests without one (AWS-05)."""
    control = endpoint.at(endpoint.base_url.replace(_RUNTIME, "://bedrock", 1))
    listed, profiles = await asyncio.gather(
        request_json(control, "GET", "/foundation-models", _Models), _list_profiles(control)
    )
    models = [
        _model_info(text(entry.get("modelId")), text(entry.get("modelName")), endpoint)
        for entry in listed.model_summaries
        if _answers_alone(entry)
    ]
    reached = [
        _model_info(text(entry.get("inferenceProfileId")), text(entry.get("inferenceProfileName")), endpoint)
        for entry in profiles
    ]
    return [model for model in (*models, *reached) if model.id]


class _AtMantle(Struct):
    data: list[dict[str, Any]] = []


async def list_at_mantle(endpoint: Endpoint) -> list[ModelInfo]:
    """Beside the places of its wires, in OpenAI's form."""
    listed = await request_json(endpoint, "GET", "/../v1/models", _AtMantle)
    return [_model_info(text(entry.get("id")), "", endpoint) for entry in listed.data if entry.get("id")]


def _answers_alone(entry: dict[str, Any]) -> bool:
    """Whether it writes text or makes vectors, and is asked by its own id."""
    ways, written = entry.get("inferenceTypesSupported"), entry.get("outputModalities")
    return (not isinstance(ways, list) or "ON_DEMAND" in ways) and (
        not isinstance(written, list) or "TEXT" in written or "EMBEDDING" in written
    )


async def _list_profiles(control: Endpoint) -> list[dict[str, Any]]:
    path = f"/inference-profiles?maxResults={_PAGE}"
    page = await request_json(control, "GET", path, _Profiles)
    entries = page.inference_profile_summaries
    while page.next_token and page.inference_profile_summaries:
        page = await request_json(
            control, "GET", f"{path}&nextToken={quote(page.next_token, safe='')}", _Profiles
        )
        entries = [*entries, *page.inference_profile_summaries]
    return entries


def _model_info(name: str, title: str, endpoint: Endpoint) -> ModelInfo:
    return ModelInfo(id=name, provider=endpoint.provider, name=title or name, type=type_of(name))


class _Count(Struct, rename="camel"):
    input_tokens: int


async def count_tokens(endpoint: Endpoint, model: str, body: bytes) -> int:
    fields = msgspec.json.decode(body)
    counted = {"input": {"converse": {name: fields[name] for name in _COUNTED if name in fields}}}
    path = f"/model/{in_path(model)}/count-tokens"
    return (await request_json(endpoint, "POST", path, _Count, counted)).input_tokens


async def count_messages(endpoint: Endpoint, model: str, body: bytes) -> int:
    """AWS-09: of a request for InvokeModel, which must be whole."""
    fields = {"max_tokens": _COUNT_TOKENS, **msgspec.json.decode(body)}
    # msgspec writes bytes as base64.
    counted = {"input": {"invokeModel": {"body": msgspec.json.encode(fields)}}}
    path = f"/model/{in_path(model)}/count-tokens"
    return (await request_json(endpoint, "POST", path, _Count, counted)).input_tokens


class _AmazonVector(Struct, rename="camel"):
    embedding: list[float]
    input_text_token_count: int | None = None


class _CohereVectors(Struct):
    embeddings: dict[str, list[list[float]]]


async def embed(endpoint: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
    path = f"/model/{in_path(model)}/invoke"
    if _COHERE in model:
        size = {} if dimensions is None else {"output_dimension": dimensions}
        asked = {"texts": list(texts), "input_type": "search_document", "embedding_types": ["float"], **size}
        vectors = await request_json(endpoint, "POST", path, _CohereVectors, asked)
        return vectors.embeddings.get("float", []), None
    (one,) = texts  # the limits in the catalog: it takes one at a time
    size = {} if dimensions is None else {"dimensions": dimensions}
    vector = await request_json(endpoint, "POST", path, _AmazonVector, {"inputText": one, **size})
    return [vector.embedding], vector.input_text_token_count

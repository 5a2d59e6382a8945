"""Gemini's wire: models, embeddings, token counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from segue.providers.capabilities import ModelInfo, ModelType
from segue.providers.endpoint import in_path, request_json, text, whole
from segue.providers.models.catalog import EmbeddingLimits, catalog, type_of
from segue.providers.services import Counted, Services

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.providers.endpoint import Endpoint

_PAGE = 1000


def services(dialect: str) -> Services:
    return Services(
        list_models=list_models,
        show_model=show_model,
        embed=embed,
        embedding_limits=catalog().embeddings.get(dialect, EmbeddingLimits()),
        count_tokens=count_tokens,
        cached_contents=cached_contents,
    )


# Contents that it holds (CCH-01)


async def cached_contents(
    endpoint: Endpoint, method: str, name: str = "", body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    path = f"/cachedContents/{in_path(name)}" if name else "/cachedContents"
    return await request_json(endpoint, method, path, dict[str, Any], body)


# Models (GEM-45)


class _Page(Struct, rename="camel"):
    models: list[dict[str, Any]] = []
    next_page_token: str | None = None


async def list_models(endpoint: Endpoint) -> list[ModelInfo]:
    path = f"/models?pageSize={_PAGE}"
    page = await request_json(endpoint, "GET", path, _Page)
    entries = page.models
    while page.next_page_token and page.models:
        page = await request_json(
            endpoint, "GET", f"{path}&pageToken={quote(page.next_page_token, safe='')}", _Page
        )
        entries = [*entries, *page.models]
    return [_model_info(entry, endpoint) for entry in entries if entry.get("name")]


async def show_model(endpoint: Endpoint, name: str) -> ModelInfo:
    entry = await request_json(endpoint, "GET", f"/{_full_name(name)}", dict[str, Any])
    return _model_info({**entry, "name": entry.get("name") or name}, endpoint)


def _full_name(model: str) -> str:
    return f"models/{in_path(model.removeprefix('models/'))}"


def _model_info(entry: dict[str, Any], endpoint: Endpoint) -> ModelInfo:
    name = str(entry["name"]).removeprefix("models/")
    methods = entry.get("supportedGenerationMethods") or ()
    kind = _type(name, methods if isinstance(methods, list) else [])
    return ModelInfo(
        id=name,
        provider=endpoint.provider,
        name=text(entry.get("displayName")) or name,
        type=kind,
        capabilities=("reasoning",) if entry.get("thinking") is True and kind == "chat" else (),
        context=whole(entry.get("inputTokenLimit")),
        output=whole(entry.get("outputTokenLimit")) if kind != "embedding" else None,
        details={"methods": methods} if methods else {},
    )


def _type(name: str, methods: list[str]) -> ModelType:
    """By the methods of the model; its name shows whether it makes images or sound."""
    if "generateContent" in methods or not methods:
        return type_of(name)
    return "embedding" if "embedContent" in methods else "other"


# Embeddings (GEM-47)


class _Vector(Struct):
    values: list[float]


class _Vectors(Struct):
    embeddings: list[_Vector]


async def embed(endpoint: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
    name = _full_name(model)
    fields = {} if dimensions is None else {"outputDimensionality": dimensions}
    requests = [{"model": name, "content": {"parts": [{"text": text}]}, **fields} for text in texts]
    answer = await request_json(
        endpoint, "POST", f"/{name}:batchEmbedContents", _Vectors, {"requests": requests}
    )
    return [vector.values for vector in answer.embeddings], None


# Tokens (GEM-46)


class _Count(Struct, rename="camel"):
    total_tokens: int = 0


async def count_tokens(endpoint: Endpoint, model: str, body: bytes) -> int:
    name = _full_name(model)
    request = {**msgspec.json.decode(body), "model": name}
    answer = await request_json(
        endpoint, "POST", f"/{name}:countTokens", _Count, {"generateContentRequest": request}
    )
    return answer.total_tokens

"""Models at Google Cloud: those of Google and of Anthropic, in Vertex's own list and with its own token counts and vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from segue.providers.capabilities import ModelInfo
from segue.providers.endpoint import in_path, request_json
from segue.providers.models.catalog import EmbeddingLimits, catalog, type_of
from segue.providers.services import Counted, Services
from segue.providers.services.anthropic import COUNTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.providers.endpoint import Endpoint

_PAGE: Final = 300
_VERSION: Final = "vertex-2023-10-16"


def services(host: str) -> Services:
    if host == "vertex_anthropic":
        return Services(list_models=list_models, show_model=show_model, count_tokens=count_messages)
    return Services(
        list_models=list_models,
        show_model=show_model,
        count_tokens=count_contents,
        embed=embed,
        embedding_limits=catalog().embeddings.get(host, EmbeddingLimits()),
    )


class _Page(Struct, rename="camel"):
    publisher_models: list[dict[str, Any]] = []
    next_page_token: str | None = None


async def list_models(endpoint: Endpoint) -> list[ModelInfo]:
    """The models of the publisher whom the base URL names. The list has no project, and another version than the chats."""
    garden = _garden(endpoint)
    path = f"/models?pageSize={_PAGE}"
    page = await request_json(garden, "GET", path, _Page)
    entries = page.publisher_models
    while page.next_page_token and page.publisher_models:
        token = quote(page.next_page_token, safe="")
        page = await request_json(garden, "GET", f"{path}&pageToken={token}", _Page)
        entries = [*entries, *page.publisher_models]
    return [_model_info(entry, endpoint) for entry in entries if entry.get("name")]


async def show_model(endpoint: Endpoint, name: str) -> ModelInfo:
    path = f"/models/{in_path(name.partition('@')[0])}"
    entry = await request_json(_garden(endpoint), "GET", path, dict[str, Any])
    return _model_info({**entry, "name": entry.get("name") or name}, endpoint)


def _garden(endpoint: Endpoint) -> Endpoint:
    before, _, publisher = endpoint.base_url.partition("/publishers/")
    host = before.partition("/projects/")[0].rpartition("/v1")[0]
    return endpoint.at(f"{host}/v1beta1/publishers/{publisher}")


def _model_info(entry: dict[str, Any], endpoint: Endpoint) -> ModelInfo:
    name = str(entry["name"]).rpartition("/models/")[2]
    return ModelInfo(id=name, provider=endpoint.provider, name=name, type=type_of(name))


class _Contents(Struct, rename="camel"):
    total_tokens: int = 0


async def count_contents(endpoint: Endpoint, model: str, body: bytes) -> int:
    """VTX-04: contents, tools and the system prompt are counted as they are, without an envelope."""
    fields = msgspec.json.decode(body)
    counted = {name: fields[name] for name in ("contents", "systemInstruction", "tools") if name in fields}
    path = f"/models/{in_path(model)}:countTokens"
    return (await request_json(endpoint, "POST", path, _Contents, counted)).total_tokens


class _Messages(Struct):
    input_tokens: int


async def count_messages(endpoint: Endpoint, model: str, body: bytes) -> int:
    """VTX-05: the model is in the body here, and not in the address."""
    fields = msgspec.json.decode(body)
    counted = {name: fields[name] for name in COUNTED if name in fields}
    asked = {"model": model, "anthropic_version": _VERSION, **counted}
    return (
        await request_json(endpoint, "POST", "/models/count-tokens:rawPredict", _Messages, asked)
    ).input_tokens


class _Statistics(Struct, frozen=True):
    token_count: float | None = None


class _Vector(Struct):
    values: list[float]
    statistics: _Statistics = _Statistics()


class _Prediction(Struct):
    embeddings: _Vector


class _Predictions(Struct):
    predictions: list[_Prediction]


class _Embedded(Struct):
    embedding: _Vector


async def embed(endpoint: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
    """Models of the first generation are asked as any model there that predicts; later ones have a method of their own, for
    one text at a time, as the limits in the catalog say."""
    path = f"/models/{in_path(model)}"
    size = {} if dimensions is None else {"outputDimensionality": dimensions}
    if _has_own_method(model):
        (one,) = texts
        asked = {"content": {"parts": [{"text": one}]}, **({"embedContentConfig": size} if size else {})}
        answer = await request_json(endpoint, "POST", f"{path}:embedContent", _Embedded, asked)
        return [answer.embedding.values], None
    instances = [{"content": text} for text in texts]
    asked = {"instances": instances, **({"parameters": size} if size else {})}
    found = await request_json(endpoint, "POST", f"{path}:predict", _Predictions, asked)
    vectors = [prediction.embeddings for prediction in found.predictions]
    counts = [vector.statistics.token_count for vector in vectors]
    known = [count for count in counts if count is not None]
    return [vector.values for vector in vectors], int(sum(known)) if len(known) == len(counts) else None


def _has_own_method(model: str) -> bool:
    """As Google's own SDK decides it (google-genai 3.3.0, `t_is_vertex_embed_content_model`)."""
    return "maas" in model or ("gemini" in model and model != "gemini-embedding-001")

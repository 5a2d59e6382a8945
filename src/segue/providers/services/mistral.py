"""Mistral's wire: models, with more facts than OpenAI's, and embeddings. It counts no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.providers.capabilities import ModelInfo, ModelType
from segue.providers.endpoint import in_path, moment, request_json, text, whole
from segue.providers.models.catalog import EmbeddingLimits, catalog, type_of
from segue.providers.services import Counted, Services
from segue.providers.services.openai_like import embedded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.providers.endpoint import Endpoint

_CAPABILITIES: Mapping[str, str] = {
    "function_calling": "tools",
    "vision": "vision",
    "reasoning": "reasoning",
}


def services(dialect: str) -> Services:
    return Services(
        list_models=list_models,
        show_model=show_model,
        embed=embed,
        embedding_limits=catalog().embeddings.get(dialect, EmbeddingLimits()),
    )


class _List(Struct):
    data: list[dict[str, Any]]


async def list_models(endpoint: Endpoint) -> list[ModelInfo]:
    """MIS-18."""
    answer = await request_json(endpoint, "GET", "/models", _List)
    return [_model_info(entry, endpoint) for entry in answer.data if entry.get("id")]


async def show_model(endpoint: Endpoint, name: str) -> ModelInfo:
    entry = await request_json(endpoint, "GET", f"/models/{in_path(name)}", dict[str, Any])
    return _model_info({**entry, "id": entry.get("id") or name}, endpoint)


def _model_info(entry: dict[str, Any], endpoint: Endpoint) -> ModelInfo:
    name = str(entry["id"])
    listed = entry.get("capabilities")
    able = listed if isinstance(listed, dict) else {}
    return ModelInfo(
        id=name,
        provider=endpoint.provider,
        name=text(entry.get("name")) or name,
        type=_type(name, able),
        capabilities=tuple(sorted(ours for theirs, ours in _CAPABILITIES.items() if able.get(theirs))),
        context=whole(entry.get("max_context_length")),
        modified_at=moment(entry.get("created")),
        details={key: entry[key] for key in ("aliases", "capabilities") if entry.get(key)},
    )


def _type(name: str, able: Mapping[str, Any]) -> ModelType:
    if able.get("completion_chat") and not able.get("moderation"):
        return "chat"
    kind = type_of(name)
    return kind if kind != "chat" or not able else "other"


async def embed(endpoint: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
    """MIS-17: the wire has its own word for dimensions."""
    return await embedded(
        endpoint, model, texts, {} if dimensions is None else {"output_dimension": dimensions}
    )

"""Anthropic's wire: models and token counts. It has no embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from segue.providers.capabilities import ModelInfo
from segue.providers.endpoint import in_path, request_json, text, whole
from segue.providers.services import Services

if TYPE_CHECKING:
    from segue.providers.endpoint import Endpoint

_PAGE = 1000
COUNTED = ("messages", "system", "tools", "tool_choice", "thinking", "mcp_servers", "context_management")
"""ANT-96: the fields of a request whose tokens can be counted."""


def services(dialect: str) -> Services:
    del dialect
    return Services(list_models=list_models, show_model=show_model, count_tokens=count_tokens)


class _Page(Struct):
    data: list[dict[str, Any]]
    has_more: bool = False
    last_id: str | None = None


async def list_models(endpoint: Endpoint) -> list[ModelInfo]:
    """All pages of the list (ANT-95)."""
    path = f"/v1/models?limit={_PAGE}"
    page = await request_json(endpoint, "GET", path, _Page)
    entries = page.data
    while page.has_more and page.last_id and page.data:
        page = await request_json(endpoint, "GET", f"{path}&after_id={quote(page.last_id, safe='')}", _Page)
        entries = [*entries, *page.data]
    return [_model_info(entry, endpoint) for entry in entries if entry.get("id")]


async def show_model(endpoint: Endpoint, name: str) -> ModelInfo:
    entry = await request_json(endpoint, "GET", f"/v1/models/{in_path(name)}", dict[str, Any])
    return _model_info({**entry, "id": entry.get("id") or name}, endpoint)


def _model_info(entry: dict[str, Any], endpoint: Endpoint) -> ModelInfo:
    return ModelInfo(
        id=str(entry["id"]),
        provider=endpoint.provider,
        name=text(entry.get("display_name")) or str(entry["id"]),
        context=whole(entry.get("max_input_tokens")),
        output=whole(entry.get("max_tokens")),
        modified_at=text(entry.get("created_at")),
    )


class _Count(Struct):
    input_tokens: int


async def count_tokens(endpoint: Endpoint, model: str, body: bytes) -> int:
    fields = msgspec.json.decode(body)
    counted = {"model": model, **{name: fields[name] for name in COUNTED if name in fields}}
    return (await request_json(endpoint, "POST", "/v1/messages/count_tokens", _Count, counted)).input_tokens

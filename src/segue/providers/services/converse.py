"""Bedrock: models and token counts. Models are listed by another host of the same region than the one that runs them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from segue.providers.capabilities import ModelInfo
from segue.providers.services import Services
from segue.providers.services.json_answer import in_path, request_json, text

if TYPE_CHECKING:
    from segue.providers.endpoint import Endpoint

_RUNTIME: Final = "://bedrock-runtime"
"""How its address begins, also that of the host for FIPS; the lists are without the word."""
_COUNTED: Final = ("messages", "system", "toolConfig", "additionalModelRequestFields")
"""AWS-09: the fields of a request whose tokens can be counted."""
_PAGE: Final = 1000


def services(dialect: str) -> Services:
    del dialect
    return Services(list_models=list_models, count_tokens=count_tokens)


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


def _answers_alone(entry: dict[str, Any]) -> bool:
    """Whether it writes text, and is asked by its own id."""
    ways, written = entry.get("inferenceTypesSupported"), entry.get("outputModalities")
    return (not isinstance(ways, list) or "ON_DEMAND" in ways) and (
        not isinstance(written, list) or "TEXT" in written
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
    return ModelInfo(id=name, provider=endpoint.provider, name=title or name)


class _Count(Struct, rename="camel"):
    input_tokens: int


async def count_tokens(endpoint: Endpoint, model: str, body: bytes) -> int:
    fields = msgspec.json.decode(body)
    counted = {"input": {"converse": {name: fields[name] for name in _COUNTED if name in fields}}}
    path = f"/model/{in_path(model)}/count-tokens"
    return (await request_json(endpoint, "POST", path, _Count, counted)).input_tokens

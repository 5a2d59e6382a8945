"""The many servers that speak OpenAI's wire tell of their models each in its own way; all are understood."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from segue.dialects.registry import DIALECTS
from segue.emulators.server import Served
from segue.errors import ProtocolError
from segue.providers.capabilities import ModelInfo
from segue.providers.embeddings import Embeddings
from segue.providers.endpoint import Endpoint
from segue.providers.models.listing import ModelList
from segue.providers.services import services_of
from strategies.endpoints import closing, emulated, saying


def place(answer: Any, dialect: str = "openai_compatible", provider: str = "somewhere") -> Endpoint:
    """A place that answers everything alike."""

    body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
    return Endpoint(
        provider=provider,
        dialect=DIALECTS[dialect],
        base_url="https://example.test/v1",
        transport=saying(body),
    )


def told(entry: dict[str, Any], dialect: str = "openai_compatible", provider: str = "somewhere") -> ModelInfo:
    endpoint = place({"object": "list", "data": [entry]}, dialect, provider)
    (model,) = asyncio.run(ModelList(endpoint, services_of(dialect))())
    return model


def test_a_router_tells_limits_prices_and_abilities() -> None:
    entry = {
        "id": "vendor/some-model",
        "name": "Vendor: Some Model",
        "created": 1_770_000_000,
        "context_length": 200_000,
        "top_provider": {"max_completion_tokens": 64_000},
        "pricing": {"prompt": "0.000003", "completion": "0.000015"},
        "architecture": {"input_modalities": ["text", "image"]},
        "supported_parameters": ["tools", "reasoning", "structured_outputs"],
    }
    assert told(entry, "openrouter", "openrouter") == ModelInfo(
        id="vendor/some-model",
        provider="openrouter",
        name="Vendor: Some Model",
        capabilities=("json_schema", "reasoning", "streaming", "tools", "vision"),
        context=200_000,
        output=64_000,
        input_price=3.0,
        output_price=15.0,
        modified_at="2026-02-02T02:40:00Z",
    )


@pytest.mark.parametrize(
    ("entry", "context"),
    [
        ({"id": "m", "context_window": 131_072, "max_completion_tokens": 8192}, 131_072),
        ({"id": "m", "max_model_len": 40_960, "owned_by": "vllm"}, 40_960),
        ({"id": "m", "meta": {"n_ctx_train": 32_768}}, 32_768),
        ({"id": "m", "context_length": None, "pricing": None, "created": None}, None),
        ({"id": "m", "context_length": "many", "pricing": {"prompt": "free"}, "created": -1}, None),
    ],
)
def test_a_window_is_found_under_any_of_its_names(entry: dict[str, Any], context: int | None) -> None:
    assert told(entry).context == context


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"id": "BAAI/bge-m3"}, "embedding"),
        ({"id": "anything", "type": "embedding"}, "embedding"),
        ({"id": "whisper-large-v3"}, "audio"),
        ({"id": "dall-e-3"}, "image"),
        ({"id": "omni-moderation-latest"}, "moderation"),
        ({"id": "meta-llama/Llama-3.3-70B-Instruct", "type": "chat"}, "chat"),
        ({"id": "gpt-4o-mini-tts"}, "audio"),
        ({"id": "gpt-4o"}, "chat"),
    ],
)
def test_what_a_model_is_for_is_told_by_its_server_or_by_its_name(entry: dict[str, Any], kind: str) -> None:
    assert told(entry).type == kind


def test_a_list_without_its_envelope_is_a_list() -> None:
    models = asyncio.run(ModelList(place([{"id": "a"}, {"id": "b"}, {}, "c"]), services_of("vllm"))())
    assert [model.id for model in models] == ["a", "b"]


@pytest.mark.parametrize("answer", [{"data": None}, {"models": []}, 3, b"<html>", b""])
def test_what_is_no_list_is_refused(answer: Any) -> None:
    with pytest.raises(ProtocolError, match="somewhere"):
        asyncio.run(ModelList(place(answer), services_of("vllm"))())


@pytest.mark.parametrize("dialect", ["kimi", "ollama_v1"])
def test_other_servers_of_the_wire_list_their_models_too(dialect: str, segue_emulator_server: Served) -> None:
    async def main() -> list[ModelInfo]:
        return await closing(
            emulated(segue_emulator_server, dialect), lambda at: ModelList(at, services_of(dialect))()
        )

    assert any(model.type == "chat" for model in asyncio.run(main()))


def test_vectors_are_put_in_order_by_their_numbers() -> None:
    answer = {"data": [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1.5]}]}
    vectors = asyncio.run(Embeddings(place(answer), services_of("vllm")).embed(["a", "b"], model="m"))
    assert vectors == [[1.5], [2.0]]


@pytest.mark.parametrize("answer", [{"data": [{"embedding": [None]}]}, {"data": []}, {}, b"no"])
def test_what_are_no_vectors_is_refused(answer: Any) -> None:
    with pytest.raises(ProtocolError, match="somewhere") as caught:
        asyncio.run(Embeddings(place(answer), services_of("vllm")).embed(["a"], model="m"))
    assert '"m"' in caught.value.message

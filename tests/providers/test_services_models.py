"""Every wire tells its models in one standard form."""

from __future__ import annotations

import asyncio

import pytest

from segue.emulators.faults import Fault
from segue.emulators.server import Served
from segue.errors import CredentialsError, InvalidRequestError, OverloadError, ProtocolError, TransportError
from segue.providers.capabilities import ModelInfo
from segue.providers.models.listing import KEPT_SECONDS, ModelList, catalog_models, show_model
from segue.providers.services import Services, services_of
from strategies.endpoints import closing, emulated, endpoint_at

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini", "mistral", "ollama")


def listed(served: Served, dialect: str) -> list[ModelInfo]:
    async def main() -> list[ModelInfo]:
        return await closing(emulated(served, dialect), lambda at: ModelList(at, services_of(dialect))())

    return asyncio.run(main())


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.requirement("Scenario: Model Discovery")
def test_models_are_listed_with_type_capabilities_and_limits(
    dialect: str, segue_emulator_server: Served
) -> None:
    models = listed(segue_emulator_server, dialect)
    assert models
    for model in models:
        assert model.id
        assert model.name
        assert model.provider == dialect.partition("_")[0]
        assert list(model.capabilities) == sorted(set(model.capabilities))
    chats = [model for model in models if model.type == "chat"]
    assert chats
    assert all("streaming" in model.capabilities for model in chats)
    assert any("tools" in model.capabilities for model in chats)
    assert all(model.context for model in chats if dialect not in ("ollama",))


@pytest.mark.parametrize(
    ("dialect", "model", "dimensions"),
    [
        ("openai_chat", "text-embedding-3-small", 1536),
        ("gemini", "gemini-embedding-001", 3072),
        ("mistral", "mistral-embed", 1024),
        ("ollama", "nomic-embed-text:latest", 768),
    ],
)
@pytest.mark.requirement("Scenario: Model Discovery")
def test_embedding_models_are_told_from_those_that_chat(
    dialect: str, model: str, dimensions: int, segue_emulator_server: Served
) -> None:
    found = next(one for one in listed(segue_emulator_server, dialect) if one.id == model)
    assert found.type == "embedding"
    assert found.capabilities == ("embeddings",)
    assert found.dimensions == dimensions


def test_prices_and_limits_that_the_provider_keeps_to_itself_are_added(segue_emulator_server: Served) -> None:
    found = next(one for one in listed(segue_emulator_server, "openai_chat") if one.id == "gpt-4.1")
    assert (found.input_price, found.output_price) == (2.0, 8.0)
    assert (found.context, found.output) == (1_047_576, 32_768)
    assert found.capabilities == ("streaming", "tools", "vision")


def test_pages_are_read_to_the_last(segue_emulator_server: Served) -> None:
    """The emulators' own lists are short: with a page of one model each, all of them are still found."""
    from segue.providers.services import anthropic, gemini

    whole = {dialect: listed(segue_emulator_server, dialect) for dialect in ("anthropic", "gemini")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anthropic, "_PAGE", 1)
        patch.setattr(gemini, "_PAGE", 1)
        assert {dialect: listed(segue_emulator_server, dialect) for dialect in whole} == whole


@pytest.mark.parametrize(
    ("dialect", "model"),
    [
        ("openai_chat", "gpt-4.1"),
        ("anthropic", "claude-sonnet-4-6"),
        ("gemini", "gemini-2.5-flash"),
        ("mistral", "mistral-large-latest"),
        ("ollama", "qwen3"),
    ],
)
def test_one_model_can_be_shown(dialect: str, model: str, segue_emulator_server: Served) -> None:
    async def main() -> ModelInfo:
        return await closing(
            emulated(segue_emulator_server, dialect), lambda at: show_model(at, services_of(dialect), model)
        )

    shown = asyncio.run(main())
    assert shown.id == model
    assert shown.context
    assert "tools" in shown.capabilities


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini", "ollama"])
def test_a_model_that_is_not_there_is_an_error_that_names_it(
    dialect: str, segue_emulator_server: Served
) -> None:
    async def main() -> None:
        await closing(
            emulated(segue_emulator_server, dialect),
            lambda at: show_model(at, services_of(dialect), "no-such-model"),
        )

    with pytest.raises(InvalidRequestError) as caught:
        asyncio.run(main())
    assert caught.value.status == 404
    assert '"no-such-model"' in caught.value.message
    assert dialect.partition("_")[0] in caught.value.message


def test_a_list_is_asked_for_once_in_five_minutes_unless_wanted_anew(segue_emulator_server: Served) -> None:
    now = [100.0]

    async def main() -> None:
        endpoint = emulated(segue_emulator_server, "mistral")

        async def use(_: object) -> None:
            models = ModelList(endpoint, services_of("mistral"), clock=lambda: now[0])
            first = await models()
            first.clear()  # what a caller does with its list is its own affair
            now[0] += KEPT_SECONDS - 1
            assert await models()
            assert len(segue_emulator_server.emulator.log) == 1
            await models(refresh=True)
            assert len(segue_emulator_server.emulator.log) == 2
            now[0] += KEPT_SECONDS
            await models()
            assert len(segue_emulator_server.emulator.log) == 3

        await closing(endpoint, use)

    asyncio.run(main())


@pytest.mark.parametrize("dialect", WIRES)
def test_a_failed_listing_says_whose_and_why_and_the_known_models_are_still_there(
    dialect: str, segue_emulator_server: Served
) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=503))
    with pytest.raises(OverloadError, match="Listing the models of") as caught:
        listed(segue_emulator_server, dialect)
    assert caught.value.status == 503
    assert dialect.partition("_")[0] in caught.value.message
    assert catalog_models(dialect.partition("_")[0])


def test_a_refused_key_is_told_as_such(segue_emulator_server: Served) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=401))
    with pytest.raises(CredentialsError):
        listed(segue_emulator_server, "anthropic")


@pytest.mark.parametrize("kind", ["content_type", "empty"])
@pytest.mark.parametrize("dialect", WIRES)
def test_an_answer_that_no_api_gives_is_told_as_such(
    dialect: str, kind: str, segue_emulator_server: Served
) -> None:
    segue_emulator_server.emulator.faults.append(Fault(kind=kind))  # type: ignore[arg-type]
    with pytest.raises((ProtocolError, OverloadError)) as caught:
        listed(segue_emulator_server, dialect)
    assert dialect.partition("_")[0] in caught.value.message


@pytest.mark.requirement("Property 11")
def test_a_place_that_cannot_be_asked_for_models_says_so() -> None:
    endpoint = endpoint_at("http://127.0.0.1:9", "anthropic")
    with pytest.raises(InvalidRequestError, match="does not list its models"):
        asyncio.run(ModelList(endpoint, Services())())
    with pytest.raises(InvalidRequestError, match="does not list its models"):
        asyncio.run(show_model(endpoint, Services(), "m"))


@pytest.mark.requirement("Property 16")
def test_nobody_listening_is_told_with_the_address() -> None:
    async def main() -> None:
        endpoint = endpoint_at("http://127.0.0.1:9", "ollama")
        await closing(endpoint, lambda at: ModelList(at, services_of("ollama"))())

    with pytest.raises(TransportError) as caught:
        asyncio.run(main())
    assert caught.value.code == "CONNECTION_FAILED"
    assert "127.0.0.1:9" in caught.value.message

"""What the model names of clients stand for: a bare name is a model of the provider that has it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.clients import AGENTS
from gateway.test_identity import conversation_of, route_of
from gateway.world import ROUTES, GatewayWorld
from segue.config.schema import Config, GatewaySettings
from segue.dialects import DIALECTS
from segue.errors import InvalidRequestError
from segue.gateway.names import ModelNames
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry

BARE = [route for name, route in ROUTES.items() if name != "ollama"]
"""Of all providers whose models have names of their own."""


def names(*providers: str, config: Config | None = None) -> ModelNames:
    """Those of a gateway whose providers have keys."""
    key, url = Secret("sk-test"), "https://me.openai.azure.com/openai/v1"
    configs = {
        name: ProviderConfig(api_key=key, base_url=url if name.startswith("azure") else "")
        for name in providers
    }
    return ModelNames(config or Config(), default_registry(configs, environ={}, keyring=False))


def led_to(known: ModelNames, asked: str) -> str:
    (route,) = known.led_to(asked)
    return route


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("route", BARE)
def test_a_bare_name_goes_to_the_provider_that_has_it_through_any_door(wire: str, route: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        for note in ("[1m]", ""):
            world.emulator.log.clear()
            asked = route.partition("/")[2] + note
            agent = AGENTS[wire](world, asked)
            await agent.turn("Please look at two cities.")
            assert route_of(agent) == route
            if wire not in ("gemini", "ollama", "converse"):
                assert agent.replies[-1].json()["model"] == asked
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("claude-opus-9", "anthropic/claude-opus-9"),
        ("Claude-Opus-9", "anthropic/Claude-Opus-9"),
        ("gpt-7-mini", "openai/gpt-7-mini"),
        ("models/gemini-9-pro", "gemini/gemini-9-pro"),
        ("mistral-huge-2", "mistral/mistral-huge-2"),
        ("kimi-k9", "kimi/kimi-k9"),
        ("anthropic/claude-opus-5-5[1m]", "anthropic/claude-opus-5-5"),
    ],
)
def test_a_model_may_be_newer_than_the_catalog(asked: str, expected: str) -> None:
    known = names("anthropic", "openai", "gemini", "mistral", "kimi")
    assert led_to(known, asked.removeprefix("models/")) == expected
    assert led_to(known, asked) == expected


@pytest.mark.parametrize(
    ("providers", "expected"),
    [
        (["openai", "azure-openai"], "openai/gpt-4.1"),
        (["azure-openai", "anthropic"], "azure-openai/gpt-4.1"),
    ],
)
def test_who_made_a_model_comes_first_if_it_is_set_up(providers: list[str], expected: str) -> None:
    assert led_to(names(*providers), "gpt-4.1") == expected


def test_what_the_configuration_says_comes_first() -> None:
    patterns = Config(gateway=GatewaySettings(models={"claude-*": "openai/gpt-4.1"}))
    anything = Config(gateway=GatewaySettings(model="openai/gpt-4.1"))
    aliases = Config(aliases={"claude-opus-5-5": "openai/gpt-4.1", "best": "openai/gpt-4.1"})
    for config in (patterns, anything, aliases):
        known = names("anthropic", "openai", config=config)
        for asked in ("claude-opus-5-5", "claude-opus-5-5[1m]"):
            assert led_to(known, asked) == "openai/gpt-4.1"
    assert led_to(names("openai", config=aliases), "best[1m]") == "openai/gpt-4.1"


@pytest.mark.parametrize("wire", AGENTS)
def test_a_model_of_a_provider_without_a_key_is_refused_with_what_to_do(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, "grok-4")
        agent.add_user("Hello.")
        reply = await agent.send()
        assert reply.status == 404
        error = DIALECTS[wire].decode_error(reply.status, dict(reply.headers), reply.body)
        assert 'There is no model "grok-4" here.' in error.message
        assert "XAI_API_KEY" in error.message
        assert "gateway.models" in error.message

    asyncio.run(main())


def test_a_name_that_nobody_knows_is_refused() -> None:
    for asked in ("llama3.2", "[1m]", "", "gpt"):
        with pytest.raises(InvalidRequestError) as caught:
            names("anthropic", "openai").router(asked)
        assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_an_operator_may_switch_to_a_bare_name() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, "gpt-4.1")
        await agent.turn("Hello.")
        await world.gateway.settle()
        path = f"/segue/v1/conversations/{conversation_of(agent)}/switch"
        switched: Any = (await world.ask(path, {"model": "claude-sonnet-4-6[1m]"})).json()
        assert switched["switched"] == ROUTES["anthropic"]
        await agent.turn("And now?")
        assert route_of(agent) == ROUTES["anthropic"]
        assert (await world.ask(path, {"model": "llama3.2"})).status == 400

    asyncio.run(main())


def test_a_name_that_nobody_has_suggests_a_similar_model() -> None:
    with pytest.raises(InvalidRequestError, match="Did you mean anthropic/claude-sonnet-5-5") as refused:
        names("anthropic").router("sonnet")
    assert refused.value.status == 404


@pytest.mark.requirement("Property 2")
def test_a_name_that_nobody_knows_is_a_model_of_the_default_provider() -> None:
    configs = {"ollama": ProviderConfig(base_url="http://127.0.0.1:9")}
    registry = default_registry(configs, environ={}, keyring=False)
    with pytest.raises(InvalidRequestError, match="There is no model"):
        ModelNames(Config(), registry).router("my-own")
    registry.set_default("ollama")
    found = ModelNames(Config(), registry)
    assert [found.router(asked).name for asked in ("my-own", "")] == ["ollama/my-own", "ollama/default"]
    chosen = Config(gateway=GatewaySettings(model="openai/gpt-4.1"))
    assert ModelNames(chosen, registry).router("my-own").name == "openai/gpt-4.1"

"""Lists of models hold what providers report; a provider that fails or is slow does no harm."""

from __future__ import annotations

import asyncio

import pytest

from gateway.world import GatewayWorld
from segue.emulators.faults import Fault
from segue.gateway.doors import model_lists


async def listed(world: GatewayWorld) -> list[str]:
    reply = await world.ask("/v1/models", method="GET")
    assert reply.status == 200
    return [model["id"] for model in reply.json()["data"]]


def lists_asked(world: GatewayWorld) -> int:
    return sum(entry.method == "GET" for entry in world.emulator.log)


def test_models_of_all_providers_are_listed_behind_the_names_of_the_configuration() -> None:
    async def main() -> None:
        world = GatewayWorld()
        names = await listed(world)
        assert names[0] == "fast"
        providers = {name.partition("/")[0] for name in names[1:]}
        assert providers >= {"openai", "anthropic", "gemini", "mistral", "kimi", "ollama"}
        assert len(names) == len(set(names))
        asked = lists_asked(world)
        assert await listed(world) == names
        assert lists_asked(world) == asked, "the lists are kept"
        any_of_them = next(name for name in names if name.startswith("anthropic/"))
        body = {"model": any_of_them, "messages": [{"role": "user", "content": "Hello."}]}
        assert (await world.ask("/v1/chat/completions", body)).status == 200
        tags = (await world.ask("/api/tags", method="GET")).json()["models"]
        assert any_of_them in [model["name"] for model in tags]
        await world.gateway.close()

    asyncio.run(main())


def test_a_provider_that_fails_is_missing_and_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_lists, "AGAIN_SECONDS", 0.0)

    async def main() -> None:
        world = GatewayWorld()
        world.emulator.faults.append(Fault(kind="status", status=500, provider="anthropic"))
        assert not any(name.startswith("anthropic/") for name in await listed(world))
        assert any(name.startswith("anthropic/") for name in await listed(world))
        await world.gateway.close()

    asyncio.run(main())


def test_nobody_waits_for_a_slow_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_lists, "WAIT_SECONDS", 0.05)

    async def main() -> None:
        world = GatewayWorld()
        world.emulator.faults.append(Fault(kind="silence", seconds=5, provider="anthropic"))
        async with asyncio.timeout(4):
            assert (await listed(world))[0] == "fast"
        await world.gateway.close()

    asyncio.run(main())


def test_the_lists_of_providers_can_be_switched_off() -> None:
    async def main() -> None:
        world = GatewayWorld(provider_models=False)
        assert await listed(world) == ["fast"]
        assert lists_asked(world) == 0

    asyncio.run(main())


def test_a_name_that_leads_nowhere_takes_no_other_from_the_list() -> None:
    async def main() -> None:
        world = GatewayWorld(models={"wrong": "leads-nowhere", "right": "fast"}, provider_models=False)
        assert await listed(world) == ["right", "fast"]
        assert (await world.ask("/v1/models/wrong", method="GET")).status == 404

    asyncio.run(main())

"""A history that began without the gateway: its seals and thoughts reach the provider and model that it evidently came from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.clients import AGENTS, RESULT, Agent, ChatAgent
from gateway.world import ADDRESSES, GatewayWorld
from segue.gateway.app import Gateway
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.transports.asgi import AsgiTransport

PAYLOADS = ("signature", "thoughtSignature", "encrypted_content", "reasoning_content")
"""Fields that hold what only their model has made."""


class KimiAgent(ChatAgent):
    """A client of Kimi, which speaks the Chat wire in its own way."""

    wire, home, address = "kimi", "kimi-k2.6", "/kimi"

    def body(self, model: str) -> Any:
        body = super().body(model)
        body.pop("reasoning_effort", None)
        return body


CLIENTS: dict[str, tuple[type[Agent], str]] = {
    "anthropic": (AGENTS["anthropic"], "anthropic"),
    "openai_responses": (AGENTS["openai_responses"], "openai"),
    "gemini": (AGENTS["gemini"], "gemini"),
    "kimi": (KimiAgent, "kimi"),
}


def payloads_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, held in value.items():
            if name in PAYLOADS and isinstance(held, str) and held.strip():
                yield held
            yield from payloads_in(held)
    elif isinstance(value, list):
        for held in value:
            yield from payloads_in(held)


async def turn_at_home(agent: Agent, text: str) -> None:
    """A turn with tools, at the wire's own provider."""
    agent.add_user(text)
    for _ in range(5):
        reply = await agent.at_home()
        assert reply.status == 200, reply.body
        calls = agent.add_reply(reply.json())
        if not calls:
            return
        agent.add_results([(one, name, RESULT + given["city"]) for one, name, given in calls])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("client", CLIENTS)
def test_seals_and_thoughts_from_elsewhere_reach_their_own_model(client: str, *, stream: bool) -> None:
    async def main() -> None:
        kind, provider = CLIENTS[client]
        world = GatewayWorld()
        agent = kind(world, f"{provider}/{kind.home}")
        await turn_at_home(agent, "Please look.")
        await turn_at_home(agent, "Please look again.")
        held = list(payloads_in(agent.history))
        assert held
        before, agent.stream = len(world.emulator.log), stream
        agent.add_user("And now?")
        reply = await agent.send()
        assert reply.status == 200, reply.body
        (entry,) = list(world.emulator.log)[before:]
        assert (entry.provider, entry.verdict) == (provider, "accepted")
        assert list(payloads_in(json.loads(json.dumps(entry.body)))) == held
        assert "x-segue-losses" not in reply.headers

    asyncio.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_seals_and_thoughts_from_elsewhere_reach_no_other_model(client: str) -> None:
    async def main() -> None:
        kind, provider = CLIENTS[client]
        world = GatewayWorld()
        agent = kind(world, f"{provider}/{kind.home}")
        await turn_at_home(agent, "Please look.")
        held = set(payloads_in(agent.history))
        agent.add_user("And now?")
        for other in ("anthropic/claude-sonnet-4-6", "gemini/gemini-3.5-flash", "kimi/kimi-k2.6"):
            if other.startswith(provider):
                continue
            before, agent.model = len(world.emulator.log), other
            reply = await agent.send()
            assert reply.status == 200, reply.body
            (entry,) = list(world.emulator.log)[before:]
            assert not held & set(payloads_in(entry.body))

    asyncio.run(main())


def test_a_provider_that_is_not_the_home_of_its_wire_gets_the_seals_of_its_own_models() -> None:
    """A client of a reseller names the reseller: its history came from there."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, "reseller/claude-sonnet-4-6")
        await turn_at_home(agent, "Please look.")
        held = list(payloads_in(agent.history))
        reseller = ProviderConfig(
            base_url=ADDRESSES["anthropic"], dialect="anthropic", api_key=Secret("sk-emulated")
        )
        providers = default_registry(
            {"reseller": reseller}, environ={}, transport=AsgiTransport(world.app), keyring=False
        )
        world.gateway = Gateway(world.config, providers, world.gateway.memory)
        agent.add_user("And now?")
        assert (await agent.send()).status == 200
        assert list(payloads_in(world.emulator.log[-1].body)) == held

    asyncio.run(main())

"""Replies that come whole, from models and servers that do not stream: clients that stream get frames all the same."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.clients import AGENTS
from gateway.world import ADDRESSES, ROUTES, GatewayWorld
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.providers.auth import Secret
from segue.providers.config import ProviderConfig
from segue.providers.registry import default_registry
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import Timeouts


def slowed(world: GatewayWorld, timeouts: Timeouts, seconds: float) -> GatewayWorld:
    """The same world with a provider that takes its time before it answers."""

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(seconds)
        await world.app(scope, receive, send)

    config = ProviderConfig(base_url=ADDRESSES["openai"], api_key=Secret("sk-emulated"), timeouts=timeouts)
    known = default_registry({"openai": config}, environ={}, transport=AsgiTransport(slow), keyring=False)
    memory = Memory(world.store, InstallationKey(b"k" * 32))
    world.gateway = Gateway(world.config, known, memory, on_report=world.reports.append)
    return world


def test_a_forwarded_whole_reply_is_waited_for_longer_than_the_first_byte_of_a_stream() -> None:
    async def main() -> None:
        world = slowed(GatewayWorld(), Timeouts(first_byte=0.05, whole_reply=5), 0.2)
        whole = AGENTS["openai_chat"](world, ROUTES["chat"])
        assert await whole.turn("Hello.") == "I know: 0 results."
        assert world.reports[-1].forwarded
        streamed = AGENTS["openai_chat"](world, ROUTES["chat"], stream=True)
        streamed.add_user("Hello.")
        assert (await streamed.send()).status == 502
        assert world.reports[-1].error == "first_byte_timeout"

    asyncio.run(main())

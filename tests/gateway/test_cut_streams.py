"""A provider's stream that is cut at any byte ends, for the client, with whole frames and an error of its own wire."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld
from segue.emulators.faults import Fault

OWN = {
    "anthropic": ("anthropic", 850),
    "openai_responses": ("responses", 6000),
    "openai_chat": ("chat", 700),
    "ollama": ("ollama", 300),
}
"""A model of each wire's own provider, and where its replies have content."""


@pytest.mark.parametrize("wire", OWN)
def test_an_error_never_follows_half_a_frame(wire: str) -> None:
    async def main() -> None:
        model, begin = OWN[wire]
        route = ROUTES[model]
        # Under the provider's own name nothing has to be replaced: its bytes go through as they are.
        name = route.partition("/")[2]
        broken = 0
        for at in range(begin, begin + 250, 31):
            world = GatewayWorld(models={name: route})
            agent = AGENTS[wire](world, name, stream=True)
            agent.add_user("Please look.")
            world.emulator.faults.append(Fault(kind="cut", at_byte=at))
            reply = await agent.send()
            lines = reply.body.decode().split("\n")
            values = [line.removeprefix("data: ") for line in lines if wire == "ollama" or "data: " in line]
            read = [json.loads(value) for value in values if value not in ("", "[DONE]")]
            if wire != "ollama":
                events = [frame.split("\n") for frame in reply.body.decode().split("\n\n")[:-1]]
                assert all(any(line.startswith("data: ") for line in lines) for lines in events), (
                    "empty event"
                )
            if world.reports[-1].error:
                broken += 1
                assert "broke off" in str(read[-1]), reply.body[-300:]
                assert reply.body.count(b"broke off") == 1
        assert broken

    asyncio.run(main())

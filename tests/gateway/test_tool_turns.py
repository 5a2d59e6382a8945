"""Tool turns on every wire with every provider behind it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("route", ROUTES.values())
def test_a_client_of_any_wire_runs_tools_with_a_model_of_any_other_and_may_leave(
    wire: str, route: str
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, route)
        for number in range(3):
            agent.stream = number != 1
            answer = await agent.turn(f"Please look at two cities, number {number}.")
            assert answer.startswith("I know:")
            assert not answer.startswith("I know: 0")
        assert world.refusals() == []
        assert {reply.headers["x-segue-route"] for reply in agent.replies} == {route}
        agent.add_user("Thank you.")
        # Leaving is safe: what the client holds now, thoughts included, is accepted by its own provider without us.
        at_home = await agent.at_home()
        assert at_home.status == 200, at_home.body

    asyncio.run(main())

"""A request that was answered is free at once: a body of megabytes must not wait for the collector of cycles."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld
from segue.emulators.faults import Fault
from segue.exchange.attempt import Attempt
from segue.gateway.conversations.turns import ClientTurn
from segue.gateway.requests.web import WebRequest

HELD = (Attempt, ClientTurn, WebRequest)
"""What holds a body, or all that was read of it."""


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # what other tests left
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def held() -> Counter[str]:
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, HELD))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", AGENTS)
def test_a_turn_with_tools_holds_nothing_when_it_is_answered(wire: str, *, stream: bool) -> None:
    async def run() -> Counter[str]:
        world = GatewayWorld()
        for route in (ROUTES["chat"], ROUTES["responses"], ROUTES["anthropic"], ROUTES["gemini"]):
            await AGENTS[wire](world, route, stream=stream).turn("look at the weather")
        await asyncio.sleep(0)
        return held()

    assert asyncio.run(run()) == {}


@pytest.mark.parametrize(
    "fault",
    [Fault(kind="status", status=400), Fault(kind="status", status=500), Fault(kind="cut", at_byte=60)],
    ids=["refused", "failed", "cut"],
)
@pytest.mark.parametrize("wire", AGENTS)
def test_a_request_that_fails_holds_nothing(wire: str, fault: Fault) -> None:
    async def run() -> Counter[str]:
        world = GatewayWorld(profiles={"team": {"members": (ROUTES["chat"], ROUTES["anthropic"])}})
        world.emulator.faults += [fault] * 10
        agent = AGENTS[wire](world, "team", stream=fault.kind == "status")
        agent.add_user("hi")
        assert (await agent.send()).status >= 400
        await asyncio.sleep(0)
        return held()

    assert asyncio.run(run()) == {}

"""A provider that is silent for long: the client's connection is kept open, and another member may still answer."""

from __future__ import annotations

import asyncio

import pytest

from gateway.clients import AGENTS, Agent
from gateway.world import ROUTES, GatewayWorld
from segue.config.schema import GatewayLimits
from segue.conversation.events import Failed
from segue.dialects import DIALECTS
from segue.emulators.faults import Fault

TEAM = {"team": {"members": [ROUTES["gemini"], ROUTES["kimi"]]}}
SILENT = Fault(kind="silence", seconds=0.3)
KEPT_OPEN = [wire for wire in AGENTS if DIALECTS[wire].server.keep_alive]


def waiting(wire: str, model: str) -> Agent:
    world = GatewayWorld(profiles=TEAM, limits=GatewayLimits(keep_alive=0.05))
    agent = AGENTS[wire](world, model, stream=True)
    agent.add_user("Hello.")
    world.emulator.faults.append(SILENT)
    return agent


@pytest.mark.parametrize("wire", KEPT_OPEN)
def test_a_stream_is_kept_open_before_its_first_content_and_the_next_member_answers(wire: str) -> None:
    async def main() -> None:
        agent = waiting(wire, "team")
        reply = await agent.send()
        assert reply.status == 200
        assert reply.body.startswith(DIALECTS[wire].server.keep_alive)
        assert agent.world.reports[-1].route == ROUTES["kimi"]
        events = DIALECTS[wire].new_decoder().feed(reply.body)
        assert not any(type(event) is Failed for event in events)
        assert b"I know" in reply.body

    asyncio.run(main())


@pytest.mark.parametrize("wire", KEPT_OPEN)
def test_a_failure_behind_such_frames_is_an_error_of_the_clients_wire(wire: str) -> None:
    async def main() -> None:
        agent = waiting(wire, ROUTES["gemini"])
        agent.world.emulator.faults.extend([SILENT] * 5)
        reply = await agent.send()
        decoder = DIALECTS[wire].new_decoder()
        events = decoder.feed(reply.body) + decoder.close()
        assert type(events[-1]) is Failed

    asyncio.run(main())


def test_a_wire_without_such_frames_gets_none() -> None:
    async def main() -> None:
        agent = waiting("ollama", "team")
        reply = await agent.send()
        assert reply.headers["x-segue-route"] == ROUTES["kimi"]
        assert reply.body.startswith(b"{")

    asyncio.run(main())

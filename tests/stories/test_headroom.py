"""What providers say about their limits: a chat goes elsewhere or waits once, instead of being refused again and again."""

from __future__ import annotations

import asyncio
import time

import pytest

from segue.emulators.faults import Fault
from segue.events import ChatEvent, Warned
from stories.world import NAMES, World, good_turn

USED_UP = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "400ms"}
FOR_AN_HOUR = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h0m0s"}


def limit(headers: dict[str, str]) -> Fault:
    return Fault(kind="headers", headers=headers)


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_that_is_used_up_is_waited_for_once(world: World, name: str) -> None:
    events: list[ChatEvent] = []

    async def main() -> None:
        async with world.chat(name) as chat:
            world.emulator.faults.append(limit(USED_UP))
            await chat.send("Hello.")
            asked, began = len(world.requests(name)), time.monotonic()
            events.extend([event async for event in chat.stream("And now?")])
            assert time.monotonic() - began > 0.3
            assert len(world.requests(name)) == asked + 1
            assert chat.answer is not None
            assert chat.answer.finish == "complete"

    asyncio.run(main())
    assert [event.code for event in events if isinstance(event, Warned)] == ["limited"]
    assert world.refusals() == []


def test_a_turn_goes_to_another_member_while_a_limit_is_used_up(world: World) -> None:
    first, second = NAMES[0], NAMES[1]

    async def main() -> None:
        async with world.chat(world.router("failover", first, second)) as chat:
            world.emulator.faults.append(limit(FOR_AN_HOUR))
            await chat.send("Hello.")
            asked = len(world.requests(first))
            answer = await chat.send("And now?")
            assert answer.model == second
            assert len(world.requests(first)) == asked
            statistics = {member.name: member.limited for member in chat.router.statistics()}
            assert statistics[second] == 0.0
            assert 3500 < statistics[first] <= 3600

    asyncio.run(main())


def test_a_refusal_says_how_long_the_next_turn_must_wait(world: World) -> None:
    name = NAMES[0]

    async def main() -> None:
        async with world.chat(name) as chat:
            world.emulator.faults.append(Fault(status=429, retry_after=0.5))
            began = time.monotonic()
            assert (await chat.send("Hello.")).finish == "complete"
            assert time.monotonic() - began > 0.4
            assert len(world.requests(name)) == 2
            await good_turn(chat)

    asyncio.run(main())

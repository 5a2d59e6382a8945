"""The acceptance of the seeds over HTTP, where the other stories leave a gap: ordered pairs of the wires alternate,
and take over from each other, with cancelled fan-outs and a compaction in between."""

from __future__ import annotations

import asyncio

import pytest

from segue.chat.chat import Chat
from segue.emulators.faults import Fault
from segue.events import Switch
from stories.world import SOME_PAIRS, World, cancelled_fan_out, good_turn
from strategies.provider_places import mount_of

some_pairs = pytest.mark.parametrize(("one", "other"), SOME_PAIRS, ids=lambda name: name.partition("/")[2])


@some_pairs
@pytest.mark.requirement("REQ-915-042", "REQ-915-044")
def test_any_two_wires_alternate_over_cancelled_fan_outs_and_a_compaction(
    world: World, one: str, other: str
) -> None:
    async def main() -> None:
        async with world.chat(world.router("round_robin", one, other)) as chat:
            answered: list[str] = []
            for turn in range(8):
                # Each wire leaves an unfinished batch to the other, and each begins after a compaction.
                await (cancelled_fan_out if turn in (1, 4) else good_turn)(chat)
                assert chat.answer is not None
                answered.append(chat.answer.model)
                if turn in (2, 5):
                    assert await chat.compact("truncate") is not None
            assert answered == [one, other] * 4

    asyncio.run(main())
    assert world.refusals() == []


@some_pairs
@pytest.mark.requirement("REQ-915-043", "REQ-915-044")
def test_any_wire_takes_over_right_after_a_cancelled_fan_out_and_a_compaction(
    world: World, one: str, other: str
) -> None:
    async def fail_over(chat: Chat, down: str, to: str) -> None:
        provider = mount_of(down.partition("/")[0])
        world.emulator.faults.append(Fault(status=503, retry_after=None, provider=provider))
        switches = [event async for event in chat.stream("look") if type(event) is Switch]
        assert [(event.previous, event.model) for event in switches] == [(down, to)]
        assert chat.answer is not None
        assert (chat.answer.finish, chat.answer.model, chat.answer.error) == ("complete", to, None)

    async def main() -> None:
        async with world.chat(world.router("failover", one, other)) as chat:
            await good_turn(chat)
            await cancelled_fan_out(chat)
            await fail_over(chat, one, other)
            await cancelled_fan_out(chat)
            assert await chat.compact("truncate") is not None
            await fail_over(chat, other, one)
            await good_turn(chat)

    asyncio.run(main())
    assert world.refusals() == []

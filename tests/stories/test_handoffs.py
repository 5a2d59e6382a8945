"""Whole sessions over HTTP against the strict emulators: whoever comes next understands all of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue.emulators.faults import Fault
from segue.events import Compaction, Switch
from segue.routing.route import Route
from segue.sessions.stores.memory import MemoryStore
from stories.world import NAMES, PAIRS, SOME_PAIRS, World, cancelled_fan_out, cancelled_text, good_turn
from strategies.provider_places import mount_of

every_pair = pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda name: name.partition("/")[2])
some_pairs = pytest.mark.parametrize(("one", "other"), SOME_PAIRS, ids=lambda name: name.partition("/")[2])


@every_pair
@pytest.mark.requirement("REQ-915-041", "REQ-915-044", "REQ-915-004", "REQ-915-005")
def test_every_wire_accepts_what_any_other_leaves_behind(world: World, one: str, other: str) -> None:
    async def main() -> None:
        async with world.chat(one) as chat:
            await good_turn(chat)
            await cancelled_fan_out(chat)
            switch = await chat.switch(other)
            assert isinstance(switch, Switch)
            await good_turn(chat)
            await cancelled_text(chat)
            await cancelled_fan_out(chat)
            await chat.switch(one)
            await good_turn(chat)
            assert await chat.compact("truncate") is not None
            await good_turn(chat)
            await chat.switch(other)
            await good_turn(chat)

    asyncio.run(main())
    assert world.refusals() == []
    # At least: a wire that says results and question in one message has its model answer at once.
    assert len(world.requests(one)) >= 6
    assert len(world.requests(other)) >= 5


@every_pair
@pytest.mark.requirement("REQ-915-043")
def test_every_wire_takes_over_a_turn_that_any_other_cannot_begin(world: World, one: str, other: str) -> None:
    async def main() -> None:
        provider = mount_of(one.partition("/")[0])
        async with world.chat(world.router("failover", one, other)) as chat:
            await good_turn(chat)
            await cancelled_fan_out(chat)
            world.emulator.faults.append(Fault(status=503, retry_after=None, provider=provider))
            events = [event async for event in chat.stream("look")]
            switches = [(event.model, event.reason) for event in events if type(event) is Switch]
            assert switches == [(other, "failover")]
            assert chat.answer is not None
            assert (chat.answer.finish, chat.answer.model) == ("complete", other)
            await good_turn(chat)

    asyncio.run(main())
    assert world.refusals() == []


@pytest.mark.requirement("REQ-915-042", "REQ-915-044")
@pytest.mark.parametrize("step", [1, 3, 5])
def test_all_wires_alternate_turn_by_turn_with_cancelled_fan_outs_and_compaction_in_between(
    world: World, step: int
) -> None:
    order = tuple(NAMES[(n * step) % len(NAMES)] for n in range(len(NAMES)))
    assert set(order) == set(NAMES)

    async def main() -> None:
        async with world.chat(world.router("round_robin", *order)) as chat:
            answered: list[str] = []
            for turn in range(21):
                if turn % 5 == 3:
                    await cancelled_fan_out(chat)
                elif turn % 7 == 5:
                    await cancelled_text(chat)
                else:
                    await good_turn(chat)
                assert chat.answer is not None
                answered.append(chat.answer.model)
                if turn % 6 == 4:
                    await chat.compact("summarise" if turn % 4 else "elide_results")
            assert answered == [order[n % len(order)] for n in range(21)]

    asyncio.run(main())
    assert world.refusals() == []


@some_pairs
@pytest.mark.requirement("REQ-915-004")
def test_on_a_switch_to_a_smaller_window_the_old_model_tells_it_in_short(
    world: World, one: str, other: str
) -> None:
    provider, _, model = other.partition("/")

    async def main() -> None:
        async with world.chat(one) as chat:
            for _ in range(8):
                await good_turn(chat)
            await cancelled_fan_out(chat)
            before = len(world.requests(one))
            await chat.switch(Route(provider=provider, model=model, context=900))
            events = [event async for event in chat.stream("look")]
            assert [event.why for event in events if type(event) is Compaction] == ["full"]
            assert chat.answer is not None
            assert chat.answer.error is None
            assert len(world.requests(one)) == before + 1
            await chat.switch(one)
            await good_turn(chat)

    asyncio.run(main())
    assert world.refusals() == []


@pytest.mark.requirement("REQ-915-004", "REQ-915-050")
@pytest.mark.parametrize("one", NAMES)
def test_a_switch_during_a_cancelled_turn_is_valid_for_every_next_wire(world: World, one: str) -> None:
    async def main() -> None:
        for other in NAMES:
            async with world.chat(one) as chat:
                async for event in chat.stream("fan out"):
                    if event.type == "tool_call_result":
                        await chat.switch(other)
                        chat.cancel()
                await good_turn(chat)

    asyncio.run(main())
    assert world.refusals() == []


@pytest.mark.parametrize("one", NAMES)
def test_a_session_that_died_in_the_middle_of_a_batch_goes_on_elsewhere(world: World, one: str) -> None:
    async def main() -> None:
        for other in NAMES:
            store = MemoryStore()
            settings: dict[str, Any] = {"store": store, "session": "s"}
            lost = world.chat(one, **settings)
            begun = asyncio.Event()

            async def die(lost: Any = lost, begun: asyncio.Event = begun) -> None:
                async for event in lost.stream("fan out"):
                    if event.type == "tool_call_result":
                        begun.set()

            dying = asyncio.create_task(die())
            await begun.wait()
            async with world.chat(other, take_over=True, **settings) as chat:
                statuses = [interaction.status for interaction in chat.ledger.values()]
                assert statuses == ["complete", *["cancelled"] * 4]
                await good_turn(chat)
            dying.cancel()
            await asyncio.wait({dying})

    asyncio.run(main())
    assert world.refusals() == []

"""What goes wrong on the way: the turn may fail, the chat does not, and the next request is valid everywhere."""

from __future__ import annotations

import asyncio
import time

import pytest

from segue.emulators.faults import Fault
from segue.events import Switch
from stories.world import NAMES, World, cancelled_fan_out, good_turn

FAULTS = {
    "rate limit": Fault(status=429, retry_after=0.01),
    "overload": Fault(status=529, retry_after=None),
    "cut in the head": Fault(kind="cut", at_byte=60),
    "cut in the middle": Fault(kind="cut", at_byte=900),
    "an error in mid-stream": Fault(kind="error_mid_stream", at_byte=700),
    "malformed": Fault(kind="malformed", at_byte=500),
    "a page of HTML": Fault(kind="content_type"),
    "nothing": Fault(kind="empty"),
    "drop by drop": Fault(kind="drip", size=50, seconds=0.0),
}
NEXT = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))


@pytest.mark.requirement("REQ-915-005", "Property 35")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", NAMES)
def test_after_any_misfortune_the_chat_goes_on_here_and_elsewhere(
    world: World, name: str, fault: str
) -> None:
    async def main() -> None:
        async with world.chat(name) as chat:
            await good_turn(chat)
            world.emulator.faults.append(FAULTS[fault])
            answer = await chat.send("look", raises=False)
            assert answer.finish in ("complete", "error")
            assert (answer.error is None) == (answer.finish == "complete")
            assert not world.emulator.faults
            await good_turn(chat)
            await chat.switch(NEXT[name])
            await good_turn(chat)

    asyncio.run(main())
    assert world.refusals() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_second_exchange_that_breaks_off_keeps_the_results_of_the_first(world: World, name: str) -> None:
    async def main() -> None:
        async with world.chat(name) as chat:
            turn = chat.stream("look")
            async for event in turn:
                if event.type == "tool_call_start" and not world.emulator.faults:
                    world.emulator.faults.append(Fault(kind="cut", at_byte=300))
            assert [interaction.status for interaction in chat.ledger.values()] == ["complete"] * 2
            world.emulator.faults.clear()
            await chat.switch(NEXT[name])
            await good_turn(chat)

    asyncio.run(main())
    assert world.refusals() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_call_with_a_hole_is_never_run(world: World, name: str) -> None:
    ran: list[str] = []

    def weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        return "rain"

    async def main() -> None:
        failed = 0
        for at in range(0, 4200, 300):
            ran.clear()
            async with world.chat(world.router("failover", name), tools=[weather]) as chat:
                world.emulator.faults.append(Fault(kind="malformed", at_byte=at))
                answer = await chat.send("look", raises=False)
                failed += answer.error is not None
                # Without an error it hit nothing, behind the end of the reply.
                assert sorted(ran) == (["Oslo", "Rome"] if answer.error is None else [])
                assert "I will look.".startswith(answer.text) or answer.error is None
        assert failed

    asyncio.run(main())


@pytest.mark.requirement("Property 5", "Property 34")
@pytest.mark.parametrize("name", NAMES)
def test_a_silent_provider_can_be_cancelled_at_once(world: World, name: str) -> None:
    async def main() -> None:
        async with world.chat(name) as chat:
            world.emulator.faults.append(Fault(kind="silence", seconds=3))
            asyncio.get_running_loop().call_later(0.1, chat.cancel)
            started = time.perf_counter()
            assert (await chat.send("look")).finish == "cancelled"
            assert time.perf_counter() - started < 1
            await good_turn(chat)

    asyncio.run(main())
    assert world.refusals() == []


@pytest.mark.requirement("REQ-915-043")
def test_a_chain_of_failures_reaches_the_last_member_with_everything_that_was_said(world: World) -> None:
    async def main() -> None:
        async with world.chat(world.router("failover", *NAMES)) as chat:
            await good_turn(chat)
            await cancelled_fan_out(chat)
            for provider in ("openai", "openai", "anthropic", "gemini", "mistral", "kimi", "ollama"):
                world.emulator.faults.append(Fault(status=503, retry_after=None, provider=provider))
            events = [event async for event in chat.stream("look")]
            assert [event.model for event in events if type(event) is Switch] == list(NAMES[1:])
            assert chat.answer is not None
            assert (chat.answer.model, chat.answer.finish) == (NAMES[-1], "complete")
            assert chat.ledger["c0"].status == "complete"

    asyncio.run(main())
    assert world.refusals() == []


def test_two_chats_share_providers_and_never_mix(world: World) -> None:
    async def talk(name: str) -> int:
        async with world.chat(name) as chat:
            for other in (NEXT[name], NEXT[NEXT[name]], name):
                await good_turn(chat)
                await chat.switch(other)
            return len(chat.conversation.messages)

    async def main() -> None:
        lengths = await asyncio.gather(*(talk(name) for name in NAMES))
        assert set(lengths) == {12}

    asyncio.run(main())
    assert world.refusals() == []

"""Cancelled at any moment, a turn ends at once, once, and in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.chat.chat import Chat
from segue.conversation.blocks import ToolResult
from segue.conversation.events import Finished, ReasoningDelta, TextDelta
from segue.errors import RateLimitError
from segue.events import ChatEvent, Finish
from segue.providers.scripted import Pause, ScriptedProvider, ScriptLine, calls, says
from segue.sessions.state import replay
from strategies.examples import AT_LEAST_100


async def work(ticks: int) -> int:
    for _ in range(ticks):
        await asyncio.sleep(0)
    return ticks


def crunch() -> str:
    return "crunched"


SCRIPT: list[list[ScriptLine]] = [
    [ReasoningDelta(0, "hm"), TextDelta(1, "let me"), TextDelta(1, " see")],
    [RateLimitError("slow down", status=429, retry_after=0.0)],
    calls(("work", {"ticks": 0}), ("work", {"ticks": 5}), ("crunch", {}), ("nowhere", {}), text="first"),
    calls(("work", {"ticks": 3}), ("work", {"ticks": 50})),
    [TextDelta(0, "al"), Pause(0.0), TextDelta(0, "most"), Finished("stop")],
]


async def check(chat: Chat, events: list[ChatEvent]) -> None:
    """What holds after every turn, however it ended."""
    state = chat.journal.state
    assert [type(event) for event in events].count(Finish) == 1
    assert type(events[-1]) is Finish
    assert not state.in_turn
    assert not chat.busy
    assert state.open_calls() == ()
    answered: set[str] = set()
    for position, message in enumerate(chat.conversation.messages):
        if message.calls:
            results = chat.conversation.messages[position + 1].blocks
            assert [r.call_id for r in results if isinstance(r, ToolResult)] == [c.id for c in message.calls]
            answered.update(call.id for call in message.calls)
    assert answered == set(chat.ledger)
    again = replay(await chat.journal.store.read(chat.id))
    assert again.conversation == state.conversation
    assert dict(again.ledger) == dict(state.ledger)


@pytest.mark.requirement("REQ-915-034", "Property 5", "Property 34")
@AT_LEAST_100
@given(data=st.data())
def test_a_turn_that_is_cancelled_at_any_moment_ends_once_and_leaves_a_chat_that_can_go_on(data: Any) -> None:
    at = data.draw(st.integers(0, 150), label="ticks of the loop before the user cancels")
    how = data.draw(st.sampled_from(["cancel", "task"]), label="how")

    async def main() -> None:
        provider = ScriptedProvider(SCRIPT[2:])
        chat = Chat("scripted/m", tools=[work, crunch], providers={"scripted": provider})
        async with chat:
            events: list[ChatEvent] = []
            tasks = asyncio.all_tasks()

            async def listen() -> None:
                async for event in chat.stream("go"):
                    events.append(event)  # noqa: PERF401 - one by one, as they come

            listening = asyncio.create_task(listen())
            for _ in range(at):
                await asyncio.sleep(0)
            if how == "task":
                listening.cancel()
            else:
                chat.cancel()
            await asyncio.wait({listening}, timeout=5)
            assert listening.done()
            if how == "task" and listening.cancelled():
                events.append(Finish("cancelled"))
            await check(chat, events)
            await asyncio.sleep(0.001)
            assert asyncio.all_tasks() == tasks
            before = dict(chat.ledger)
            provider._replies[:] = [says("fine")]
            assert (await chat.send("and now?")).text == "fine"
            assert dict(chat.ledger) == before

    asyncio.run(main())


def test_a_whole_turn_needs_no_cancelling() -> None:
    async def main() -> None:
        provider = ScriptedProvider(SCRIPT[1:])
        async with Chat("scripted/m", tools=[work, crunch], providers={"scripted": provider}) as chat:
            events = [event async for event in chat.stream("go")]
            await check(chat, events)
            assert chat.answer is not None
            assert (chat.answer.finish, chat.answer.text) == ("complete", "almost")

    asyncio.run(main())


def test_no_task_outlives_its_turn() -> None:
    async def main() -> None:
        provider = ScriptedProvider(SCRIPT[2:])
        async with Chat("scripted/m", tools=[work, crunch], providers={"scripted": provider}) as chat:
            before = asyncio.all_tasks()
            await chat.send("go")
            await asyncio.sleep(0.01)
            assert asyncio.all_tasks() == before

    asyncio.run(main())

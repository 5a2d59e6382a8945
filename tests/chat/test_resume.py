"""A turn that stopped before its answer was whole is taken up where it stopped, and no tool runs twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.chat.chat import Chat
from segue.conversation.blocks import ToolResult
from segue.errors import InvalidRequestError, OverloadError, UsageError
from segue.events import Finish, ToolCallStart
from segue.providers.adapter import ChatRequest
from segue.providers.scripted import Pause, ScriptedProvider, ScriptLine, calls, says
from segue.sessions.entries import CallBegun, Record, TurnEnded, TurnResumed
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.leases import this_process
from segue.sessions.stores.memory import MemoryStore
from strategies.examples import AT_LEAST_100


def answer(request: ChatRequest) -> list[ScriptLine]:
    """Two calls, then one, then an answer: what comes next depends on what was said, not on how often it was asked."""
    batches = sum(message.speaker == "tool" for message in request.conversation.messages)
    if batches == 0:
        return calls(("step", {"n": 1}), ("step", {"n": 2}))
    return calls(("step", {"n": 3})) if batches == 1 else says("done")


class World:
    """A tool that counts how often it did what."""

    def __init__(self) -> None:
        self.done: list[int] = []

    def chat(self, store: MemoryStore, **settings: Any) -> Chat:
        provider = ScriptedProvider(answer=answer, name="a")
        return Chat("a/m", tools=[self.step], store=store, session="s", providers={"a": provider}, **settings)

    async def step(self, n: int) -> str:
        self.done.append(n)
        return f"{n} done"


def whole_turn() -> list[Record]:
    async def main() -> list[Record]:
        store = MemoryStore()
        async with World().chat(store) as chat:
            assert (await chat.send("go")).text == "done"
            return await store.read("s")

    return asyncio.run(main())


RECORDS = whole_turn()


@AT_LEAST_100
@pytest.mark.requirement("Property 27")
@given(kept=st.integers(2, len(RECORDS) - 1))
def test_after_a_crash_anywhere_a_turn_goes_on_to_its_end_and_repeats_nothing_that_had_begun(
    kept: int,
) -> None:
    async def main() -> None:
        store, world = MemoryStore(), World()
        encoded = [EncodedEntry.of(record.entry) for record in RECORDS]
        lease = await store.create("s", encoded[0], this_process())  # type: ignore[arg-type]
        await store.append(lease, encoded[1:kept])
        await store.release(lease)
        begun = [record for record in RECORDS[:kept] if isinstance(record.entry, CallBegun)]
        async with world.chat(store) as chat:
            whole = chat.conversation.messages[-1].text == "done"
            if not whole:
                assert (await chat.resume()).finish == "complete"
            assert chat.conversation.messages[-1].text == "done"
            assert len(world.done) == len(set(world.done))
            assert len(world.done) <= 3 - len(begun)
            assert [message.text for message in chat.conversation.messages if message.speaker == "user"] == [
                "go"
            ]
            await chat.undo()
            assert not chat.conversation.messages
            await chat.redo()
            assert chat.conversation.messages[-1].text == "done"
        with pytest.raises(UsageError, match="The last turn is complete"):
            async with world.chat(store) as chat:
                await chat.resume()

    asyncio.run(main())


def test_a_turn_that_failed_is_tried_again_without_repeating_the_question() -> None:
    async def main() -> None:
        provider = ScriptedProvider([[InvalidRequestError("no", status=400)], says("hello")], name="a")
        async with Chat("a/m", providers={"a": provider}) as chat:
            assert (await chat.send("hi", raises=False)).finish == "error"
            events = [event async for event in chat.stream_resumed()]
            assert type(events[-1]) is Finish
            assert chat.answer is not None
            assert chat.answer.text == "hello"
            assert [message.text for message in chat.conversation.messages] == ["hi", "hello"]
            entries = [record.entry for record in await chat.journal.store.read(chat.id)]
            assert TurnResumed("a/m") in entries
            assert chat.journal.state.turns == 1

    asyncio.run(main())


def test_a_reply_that_was_cut_off_is_continued_after_a_note_that_is_not_the_users() -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("Once upon", finish="length"), says(" a time")], name="a")
        async with Chat("a/m", providers={"a": provider}) as chat:
            assert (await chat.send("tell")).finish == "length"
            assert (await chat.resume()).text == " a time"
            assert [message.instruction for message in chat.conversation.messages] == [
                False,
                False,
                True,
                False,
            ]

    asyncio.run(main())


def test_a_cancelled_turn_goes_on_and_its_cancelled_calls_stay_cancelled() -> None:
    async def main() -> None:
        store, world = MemoryStore(), World()
        async with world.chat(store) as chat:
            async for event in chat.stream("go"):
                if type(event) is ToolCallStart:
                    chat.cancel()
            before = [m for m in chat.conversation.messages if m.speaker == "tool"]
            assert (await chat.resume()).finish == "complete"
            results = [b for m in before for b in m.blocks if isinstance(b, ToolResult)]
            assert [chat.ledger[result.call_id].result for result in results] == results

    asyncio.run(main())


def test_a_turn_at_its_limit_gets_as_many_exchanges_again() -> None:
    async def main() -> None:
        store, world = MemoryStore(), World()
        async with world.chat(store, max_turns=2) as chat:
            assert (await chat.send("go")).finish == "max_turns"
            assert (await chat.resume()).text == "done"
            assert world.done == [1, 2, 3]
            ends = [record.entry for record in await store.read("s") if isinstance(record.entry, TurnEnded)]
            assert [end.finish for end in ends] == ["max_turns", "complete"]

    asyncio.run(main())


def test_there_is_nothing_to_go_on_with_in_a_new_chat_and_while_a_turn_runs() -> None:
    async def main() -> None:
        provider = ScriptedProvider([[Pause(30)]], name="a")
        async with Chat("a/m", providers={"a": provider}) as chat:
            with pytest.raises(UsageError, match="The last turn is complete"):
                await chat.resume()
            running = asyncio.create_task(chat.send("hi"))
            await asyncio.sleep(0.02)
            with pytest.raises(UsageError, match="A turn is running"):
                await chat.resume()
            chat.cancel()
            assert (await running).finish == "cancelled"

    asyncio.run(main())


def test_another_model_may_take_up_what_one_could_not_finish() -> None:
    async def main() -> None:
        a = ScriptedProvider(
            [calls(("look", {})), *[[OverloadError("busy", status=529, retry_after=0)]] * 3], name="a"
        )
        b = ScriptedProvider([says("seen by b")], name="b")
        async with Chat("a/m", tools=[look], providers={"a": a, "b": b}) as chat:
            assert (await chat.send("go", raises=False)).finish == "error"
            await chat.switch("b/m")
            answer = await chat.resume()
            assert (answer.text, answer.model) == ("seen by b", "b/m")
            assert [m.speaker for m in b.requests[0].conversation.messages] == ["user", "model", "tool"]

    asyncio.run(main())


def look() -> str:
    return "seen"


def test_a_chat_without_a_loop_goes_on_too() -> None:
    provider = ScriptedProvider([[InvalidRequestError("no", status=400)], says("hello")], name="a")
    with Chat("a/m", providers={"a": provider}).blocking() as chat:
        assert chat.send("hi", raises=False).finish == "error"
        assert [event.type for event in chat.stream_resumed()][-1] == "finish"
        assert chat.chat.answer is not None
        assert chat.chat.answer.text == "hello"

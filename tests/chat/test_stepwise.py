"""Turns that wait for somebody's answer, and turns that go on in another process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue.chat.chat import Chat
from segue.chat.steps import Ask, Done, RunTools, Wait
from segue.conversation.blocks import ToolCall, ToolResult
from segue.errors import JournalError, OverloadError, UsageError
from segue.providers.scripted import ScriptedProvider, calls, says
from segue.routing.profiles import Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import facts_from
from segue.sessions.entries import ApprovalGiven, CallBegun, CallsScheduled, Entry, TurnEnded
from segue.sessions.journal import Journal
from segue.sessions.stores.memory import MemoryStore
from segue.tools.approval import Approval, ask_later
from segue.tools.function_tools import tool

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def send(to: str) -> str:
    """Sends something, which cannot be taken back."""
    done.append(f"sent to {to}")
    return "sent"


@tool(repeatable=True)
def put(to: str) -> str:
    """Writes the same value, however often."""
    done.append(f"put to {to}")
    return "put"


class World:
    """One store, and chats that come and go as processes do."""

    def __init__(self, *replies: Any) -> None:
        self.store = MemoryStore()
        self.provider = ScriptedProvider(replies, name="one")

    def chat(self, approval: Approval | None = None) -> Chat:
        providers = {"one": self.provider}
        return Chat(
            "one/a", providers=providers, store=self.store, session="s", tools=[send, put], approval=approval
        )

    def waiting(self) -> Chat:
        return self.chat(Approval("ask", ask=ask_later))

    async def entries(self, kind: type[Entry]) -> list[Entry]:
        return [record.entry for record in await self.store.read("s") if isinstance(record.entry, kind)]

    def results(self) -> list[ToolResult]:
        """Of the newest message that the model read."""
        return [
            b
            for b in self.provider.requests[-1].conversation.messages[-1].blocks
            if isinstance(b, ToolResult)
        ]


SEND = ("send", {"to": "ann"})
PUT = ("put", {"to": "bob"})


def test_a_turn_waits_for_an_answer_that_another_process_gives_and_the_journal_says_who_gave_it() -> None:
    async def play() -> None:
        world = World(calls(SEND), says("It is sent."))
        async with world.waiting() as chat:
            answer = await chat.send("Send it.")
            assert (answer.finish, done) == ("waiting", [])
        async with world.waiting() as later:
            (call,) = later.approvals
            assert (call.name, call.arguments) == SEND
            await later.approve(call.id, by="carol")
        async with world.waiting() as worker:
            assert (await worker.resume()).text == "It is sent."
        assert done == ["sent to ann"]
        (given,) = await world.entries(ApprovalGiven)
        assert given == ApprovalGiven("c0", allowed=True, by="carol")

    asyncio.run(play())


def test_a_refusal_and_its_reason_reach_the_model() -> None:
    async def play() -> None:
        world = World(calls(SEND), says("Then not."))
        async with world.waiting() as chat:
            await chat.send("Send it.")
            await chat.approve("c0", allow=False, by="carol", why="Not on a Sunday.")
            await chat.resume()
        (result,) = world.results()
        assert (result.error, result.reason, done) == ("Not on a Sunday.", "denied", [])

    asyncio.run(play())


def test_a_turn_goes_on_only_when_every_call_is_answered() -> None:
    async def play() -> None:
        world = World(calls(SEND, SEND), says("Both."))
        async with world.waiting() as chat:
            await chat.send("Send both.")
            await chat.approve("c0", by="carol")
            assert (await chat.resume()).finish == "waiting"
            assert [call.id for call in chat.approvals] == ["c1"]
            assert not done
            await chat.approve("c1", by="dan")
            assert (await chat.resume()).finish == "complete"
        assert len(done) == 2

    asyncio.run(play())


def test_an_answer_that_nobody_waits_for_is_refused() -> None:
    async def play() -> None:
        async with World(says("Hello.")).waiting() as chat:
            await chat.send("Hi.")
            with pytest.raises(UsageError, match='No call "c0" waits'):
                await chat.approve("c0", by="carol")

    asyncio.run(play())


def test_a_message_instead_of_an_answer_closes_the_call_that_waits() -> None:
    async def play() -> None:
        world = World(calls(SEND), says("Fine."))
        async with world.waiting() as chat:
            await chat.send("Send it.")
            assert (await chat.send("Never mind.")).finish == "complete"
        assert not done
        assert [end.finish for end in await world.entries(TurnEnded) if isinstance(end, TurnEnded)] == [
            "cancelled",
            "complete",
        ]

    asyncio.run(play())


def test_what_began_and_did_not_end_is_interrupted_unless_its_tool_may_be_repeated() -> None:
    async def play() -> None:
        world = World(calls(SEND, PUT), says("Done."))
        dead = world.chat().stepwise("k")
        step = await dead.begin("Go.")
        step = await dead.perform(step)
        assert isinstance(step, RunTools)
        # The process ends between the beginning of its calls and their ends.
        journal = dead._session.journal
        await journal.append(CallsScheduled(step.calls), *(CallBegun(call.id) for call in step.calls))
        worker = world.chat().stepwise("k")
        step = await worker.perform(step)
        assert isinstance(step, Ask)
        assert isinstance(await worker.perform(step), Done)
        assert done == ["put to bob"]
        sent, put_ = world.results()
        assert (sent.reason, put_.output) == ("interrupted", "put")
        assert worker.answer is not None
        assert worker.answer.text == "Done."

    asyncio.run(play())


def test_whoever_lost_the_session_to_another_process_writes_nothing_more() -> None:
    async def play() -> None:
        world = World(says("Late."), says("In time."))
        slow, quick = world.chat().stepwise("k"), world.chat().stepwise("k")
        step = await slow.begin("Go.")
        await quick.perform(step)
        assert quick.answer is not None
        assert quick.answer.finish == "complete"
        with pytest.raises(JournalError, match="taken over"):
            await slow.perform(step)
        assert len(await world.entries(TurnEnded)) == 1

    asyncio.run(play())


def test_a_message_under_the_same_key_is_sent_once() -> None:
    async def play() -> None:
        world = World(says("Once."), says("Twice."))
        for _ in range(2):
            step = await world.chat().stepwise("k").begin("Go.")
            assert step == Ask("2.1.ask")
        assert isinstance(await world.chat().stepwise("k").perform(step), Done)
        assert await world.chat().stepwise("k").begin("Go.") == Done("2.1.done", "complete")
        assert await world.chat().stepwise("l").begin("Go on.") == Ask("5.1.ask")

    asyncio.run(play())


def test_a_turn_that_another_one_has_replaced_is_over() -> None:
    async def play() -> None:
        world = World(says("Once."), says("Twice."))
        old = world.chat().stepwise("k")
        step = await old.begin("Go.")
        new = world.chat().stepwise("l")
        due = await new.begin("Rather this.")
        assert await world.chat().stepwise("k").perform(step) == Done("replaced", "cancelled")
        assert isinstance(await world.chat().stepwise("l").perform(due), Done)
        assert len(world.provider.requests) == 1

    asyncio.run(play())


def test_a_turn_that_waits_can_be_cancelled_from_anywhere() -> None:
    async def play() -> None:
        world = World(calls(SEND))
        first = world.waiting().stepwise("k")
        step = await first.perform(await first.begin("Go."))
        step = await first.perform(step)
        assert step == Wait("2.1.wait", (ToolCall("c0", *SEND, raw='{"to":"ann"}', native_id="call_1"),))
        assert await world.waiting().stepwise("k").cancel() == Done("2.2.done", "cancelled")
        assert not done

    asyncio.run(play())


def test_a_session_that_waits_is_not_closed_by_whoever_only_opens_it() -> None:
    async def play() -> None:
        world = World(calls(SEND))
        async with world.waiting() as chat:
            await chat.send("Send it.")
        journal = await Journal.resume(world.store, "s")
        assert journal.state.waits
        assert journal.state.in_turn
        await journal.close()

    asyncio.run(play())


def test_a_turn_that_fails_at_every_member_ends_also_where_each_step_is_in_another_process() -> None:
    async def play() -> None:
        store, down = MemoryStore(), OverloadError("Overloaded.", status=529)
        first = ScriptedProvider([calls(PUT), [down]], name="one")
        second = ScriptedProvider([[down]] * 9, name="two")
        providers = {"one": first, "two": second}
        profile = Profile(name="team", members=("one/a", "two/b"), retry=RetrySettings(attempts=1))

        def chat() -> Chat:
            """With a router that knows of no failure, as in a process of its own."""
            router = build_router(profile, facts_from(providers))
            return Chat(router, providers=providers, store=store, session="s", tools=[put])

        steps = chat().stepwise("k")
        step, performed = await steps.begin("Go."), 0
        while not isinstance(step, Done):
            await steps.close()
            steps = chat().stepwise("k")
            step, performed = await steps.perform(step), performed + 1
        assert (step.finish, performed) == ("error", 4)
        assert (len(first.requests), len(second.requests)) == (2, 1)
        assert done == ["put to bob"]
        await steps.close()

    asyncio.run(play())


def test_a_late_cancel_of_an_earlier_turn_disturbs_nobody() -> None:
    async def play() -> None:
        world = World(says("One."), says("Two."))
        first = world.chat().stepwise("first")
        assert isinstance(await first.perform(await first.begin("Go.")), Done)
        await first.close()
        second = world.chat().stepwise("second")
        step = await second.begin("Go on.")
        late = world.chat().stepwise("first")
        assert await late.cancel() == Done("replaced", "cancelled")
        await late.close()
        assert isinstance(await second.perform(step), Done)
        assert second.answer is not None
        assert (second.answer.text, second.answer.finish) == ("Two.", "complete")
        await second.close()

    asyncio.run(play())

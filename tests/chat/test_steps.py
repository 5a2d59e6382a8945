"""The turn as steps: pure decisions, and the journal of a chat however and wherever they are performed."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from segue.chat.chat import Chat
from segue.chat.steps import (
    Ask,
    Done,
    Limited,
    Outcome,
    RunTools,
    Sleep,
    Step,
    TurnState,
    Wait,
    Woken,
    next_step,
    take,
    turn_of,
)
from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Message
from segue.providers.scripted import ScriptedProvider, ScriptLine, calls, says
from segue.sessions.entries import (
    ApprovalAsked,
    ApprovalGiven,
    CallBegun,
    CallEnded,
    CallsScheduled,
    Entry,
    ModelReplied,
    NoteAdded,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.stores.memory import MemoryStore
from segue.tools.approval import Approval, ask_later
from segue.tools.definition import Context
from strategies.examples import AT_LEAST_100

CALLS = tuple(ToolCall(f"c{number}", "look", {}) for number in range(3))
REPLY = ModelReplied(Message("model", CALLS), "tool_calls")
IDS = tuple(call.id for call in CALLS)
ANSWERED = ToolsAnswered(IDS)


def after(*outcomes: Outcome, limit: int = 5) -> Step:
    state = TurnState(turn=2, limit=limit)
    for outcome in outcomes:
        state = take(state, outcome)
    return next_step(state)


def said(text: str, finish: Any = "stop") -> ModelReplied:
    return ModelReplied(Message("model", (Text(text),)), finish)


def ended(call: ToolCall, **how: Any) -> CallEnded:
    return CallEnded(ToolResult(call.id, call.name, "seen", **how))


def test_a_turn_asks_runs_the_calls_and_asks_again() -> None:
    assert after() == Ask("2.1.ask")
    assert after(REPLY) == RunTools("2.1.tools", CALLS)
    assert after(REPLY, CallsScheduled(CALLS)) == RunTools("2.1.tools", CALLS, scheduled=True)
    batch: tuple[Outcome, ...] = (REPLY, CallsScheduled(CALLS), *map(ended, CALLS), ANSWERED)
    assert after(*batch) == Ask("2.2.ask")
    assert after(*batch, said("done")) == Done("2.2.done", "complete")
    assert after(*batch, limit=1) == Done("2.2.done", "max_turns")


def test_calls_of_a_reply_that_broke_off_are_closed_and_end_the_turn() -> None:
    cut = ModelReplied(Message("model", CALLS), "length")
    assert after(cut) == RunTools("2.1.tools", CALLS, "provider_error")
    assert after(cut, *map(ended, CALLS), ANSWERED) == Done("2.2.done", "length")


def test_a_call_that_the_user_stopped_ends_the_turn() -> None:
    stopped = ended(CALLS[1], reason="cancelled_by_user")
    assert after(REPLY, ended(CALLS[0]), stopped, ended(CALLS[2]), ANSWERED) == Done("2.2.done", "cancelled")


def test_a_note_behind_an_answer_asks_for_another_one() -> None:
    note = NoteAdded(Message("user", (Text("Not so."),), instruction=True))
    assert after(said("no JSON"), note) == Ask("2.1.ask")


def test_a_limit_is_slept_through_once_and_the_request_keeps_its_key() -> None:
    assert after(Limited(90.0)) == Sleep("2.1.sleep", 90.0)
    assert after(Limited(90.0), Woken()) == after()


def test_an_entry_that_ends_the_turn_ends_it_at_any_step() -> None:
    assert after(REPLY, TurnEnded("cancelled")) == Done("2.1.done", "cancelled")


@given(asked=st.permutations(IDS), given_=st.permutations(IDS), ends=st.permutations(CALLS), data=st.data())
def test_answers_and_results_lead_to_the_same_step_in_any_order(
    asked: list[str], given_: list[str], ends: list[ToolCall], data: st.DataObject
) -> None:
    some = data.draw(st.integers(0, 3))
    waiting = take(take(TurnState(turn=2), REPLY), ApprovalAsked(tuple(asked)))
    for call_id in given_[:some]:
        waiting = take(waiting, ApprovalGiven(call_id, allowed=True, by="ann"))
    left = tuple(call for call in CALLS if call.id in given_[some:])
    assert next_step(waiting) == (Wait("2.1.wait", left) if left else RunTools("2.1.tools", CALLS))
    for call_id in given_[some:]:
        waiting = take(waiting, ApprovalGiven(call_id, allowed=False, by="bob"))
    state = take(waiting, CallsScheduled(CALLS))
    for call in ends:
        state = take(take(state, CallBegun(call.id)), ended(call))
        assert next_step(state) == RunTools("2.1.tools", CALLS, scheduled=True)
    assert next_step(take(state, ANSWERED)) == Ask("2.2.ask")


# The journal that a chat gives

plans = st.lists(
    st.lists(st.tuples(st.sampled_from(("look", "fail", "send", "none")), st.integers(0, 4)), max_size=3),
    max_size=3,
)
"""The calls of each reply: which tool, and how many rounds of the loop it takes."""


async def look(rounds: int) -> str:
    """Looks."""
    return await _after(rounds, "seen")


async def fail(rounds: int) -> str:
    """Fails."""
    raise ValueError(await _after(rounds, "failed"))


async def send(rounds: int, context: Context) -> str:
    """Has an effect, which somebody must allow."""
    return await _after(rounds, f"sent {context.call.id}")


async def _after(rounds: int, what: str) -> str:
    for _ in range(rounds):
        await asyncio.sleep(0)
    return what


def replies_of(plan: list[list[tuple[str, int]]]) -> list[list[ScriptLine]]:
    made = [calls(*((name, {"rounds": rounds}) for name, rounds in batch)) for batch in plan if batch]
    return [*made, says("done")]


class World:
    """One store, and chats that come and go as processes do."""

    def __init__(self, plan: list[list[tuple[str, int]]]) -> None:
        self.store = MemoryStore()
        self.provider = ScriptedProvider(replies_of(plan), name="one")

    def chat(self) -> Chat:
        return Chat(
            "one/a",
            providers={"one": self.provider},
            store=self.store,
            session="s",
            tools=[look, fail, send],
            max_turns=3,
            approval=Approval("ask", allow=["look", "fail"], ask=ask_later),
        )

    async def entries(self) -> list[Entry]:
        """All but the key, which only engines give."""
        entries = [record.entry for record in await self.store.read("s")]
        return [structs.replace(one, key="") if isinstance(one, UserSaid) else one for one in entries]


async def by_a_chat(plan: list[list[tuple[str, int]]], refused: set[int]) -> World:
    world, answered = World(plan), 0
    async with world.chat() as chat:
        answer = await chat.send("Go.", raises=False)
        while answer.finish == "waiting":
            for call in chat.approvals:
                await chat.approve(call.id, allow=answered not in refused, by="ann")
                answered += 1
            answer = await chat.resume(raises=False)
    return world


async def by_steps(plan: list[list[tuple[str, int]]], refused: set[int], data: st.DataObject) -> World:
    """Each step perhaps in another process, and perhaps once more after it was done."""
    world, answered = World(plan), 0
    steps = world.chat().stepwise("k")
    step = await steps.begin("Go.")
    while not isinstance(step, Done):
        again = step
        assert step.key == next_step(turn_of(await world.store.read("s"), 3)).key
        if data.draw(st.booleans(), "another process"):
            steps = world.chat().stepwise("k")
        if isinstance(step, Wait):
            for call in step.calls:
                step = await steps.approve(call.id, allow=answered not in refused, by="ann")
                answered += 1
        else:
            step = await steps.perform(step)
        if data.draw(st.booleans(), "the engine did not know"):
            steps = world.chat().stepwise("k")
            assert await steps.perform(again) == step
    await steps.close()
    return world


@AT_LEAST_100
@given(plan=plans, refused=st.sets(st.integers(0, 4), max_size=3), data=st.data())
def test_steps_performed_anywhere_give_the_journal_that_a_chat_gives(
    plan: list[list[tuple[str, int]]], refused: set[int], data: st.DataObject
) -> None:
    async def both() -> None:
        chat = await by_a_chat(plan, refused)
        steps = await by_steps(plan, refused, data)
        assert await steps.entries() == await chat.entries()
        assert [request.conversation for request in steps.provider.requests] == [
            request.conversation for request in chat.provider.requests
        ]

    asyncio.run(both())

"""The turn: what it asks for and what it runs, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.chat.chat import Chat
from segue.chat.turn import Answer
from segue.conversation.blocks import Reason, ToolCall, ToolResult
from segue.conversation.events import Finished, FinishReason, TextDelta
from segue.errors import SegueError
from segue.events import Finish
from segue.providers.scripted import ScriptedProvider, ScriptLine, calls, says
from segue.sessions.entries import CallEnded, CallsScheduled, Entry, ModelReplied
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.leases import Lease
from segue.sessions.stores.memory import MemoryStore
from segue.tools.definition import Context, Tool
from segue.tools.function_tools import tool
from strategies.examples import AT_LEAST_100

LOOK: tuple[str, dict[str, Any]] = ("look", {})
looked: list[int] = []


@tool(timeout=0.05)
async def slow() -> None:
    """Takes too long."""
    await asyncio.sleep(30)


async def stop(context: Context) -> None:
    """Is stopped by the user while it runs."""
    context.abort.set()
    await asyncio.sleep(30)


def look() -> str:
    """Looks."""
    looked.append(1)
    return "seen"


class Nobody:
    """Approves of no call."""

    async def refusal(self, call: ToolCall, tool: Tool) -> str:
        return f"not {call.name} of {tool.name}"


def take(*replies: list[ScriptLine], **settings: Any) -> tuple[list[object], Answer, list[ToolResult]]:
    """What a turn did when these are the replies: an exchange as "ask", a batch as the ids of its calls. How the turn and
    its calls ended."""

    async def main() -> tuple[list[object], Answer, list[ToolResult]]:
        looked.clear()
        provider = ScriptedProvider(replies)
        store = settings.pop("store", MemoryStore())
        chat = Chat(
            "scripted/m",
            providers={"scripted": provider},
            tools=[look, slow, stop],
            store=store,
            **settings,
        )
        async with chat:
            answer = await chat.send("go", raises=False)
            entries = [record.entry for record in await store.read(chat.id)]
        done: list[object] = []
        for entry in entries:
            if isinstance(entry, ModelReplied):
                done.append("ask")
            elif isinstance(entry, CallsScheduled):
                done.append(tuple(call.id for call in entry.calls))
        assert done.count("ask") == len(provider.requests)
        return done, answer, [entry.result for entry in entries if isinstance(entry, CallEnded)]

    return asyncio.run(main())


def test_a_reply_without_calls_ends_the_turn() -> None:
    done, answer, _ = take(says("hello"))
    assert (done, answer.finish) == (["ask"], "complete")


@pytest.mark.requirement("Property 7", "REQ-915-031")
def test_all_calls_of_a_reply_are_one_batch_and_their_results_lead_to_the_next_exchange() -> None:
    done, answer, _ = take(calls(LOOK, LOOK, LOOK), says("fine"))
    assert done == ["ask", ("c0", "c1", "c2"), "ask"]
    assert answer.finish == "complete"
    assert len(looked) == 3


@AT_LEAST_100
@pytest.mark.requirement("Property 9")
@given(limit=st.integers(1, 20))
def test_a_turn_that_would_go_on_for_ever_ends_once_at_its_limit(limit: int) -> None:
    async def main() -> None:
        provider = ScriptedProvider(answer=lambda _request: calls(LOOK))
        async with Chat(
            "scripted/m", providers={"scripted": provider}, tools=[look], max_turns=limit
        ) as chat:
            events = [event async for event in chat.stream("go")]
            assert [event.reason for event in events if type(event) is Finish] == ["max_turns"]
            assert len(provider.requests) == limit
            assert chat.answer is not None
            assert chat.answer.exchanges == limit

    asyncio.run(main())


@pytest.mark.parametrize("finish", ["length", "content_filter", "error", "cancelled"])
def test_calls_of_a_reply_that_broke_off_are_closed_and_never_run(finish: FinishReason) -> None:
    shown: list[ScriptLine] = [TextDelta(0, "so")]
    done, answer, results = take([*shown, *calls(LOOK)[:-1], Finished(finish)])
    reason: Reason = "cancelled_by_user" if finish == "cancelled" else "provider_error"
    assert done == ["ask", ("c0",)]
    assert answer.finish == finish
    assert looked == []
    assert [result.reason for result in results] == [reason]


def test_a_cancelled_call_ends_the_turn() -> None:
    done, answer, _ = take(calls(("stop", {})))
    assert done == ["ask", ("c0",)]
    assert answer.finish == "cancelled"


def test_a_denied_or_timed_out_call_does_not_end_the_turn() -> None:
    for name, approval in (("look", Nobody()), ("slow", None)):
        done, answer, _ = take(calls((name, {})), says("well"), approval=approval)
        assert done == ["ask", ("c0",), "ask"]
        assert answer.finish == "complete"
        assert looked == []


def test_what_goes_wrong_between_two_exchanges_ends_the_turn_with_its_cause() -> None:
    class Broken(MemoryStore):
        async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
            if any(isinstance(encoded.entry, CallsScheduled) for encoded in entries):
                raise ZeroDivisionError
            return await super().append(lease, entries)

    done, answer, _ = take(calls(LOOK), store=Broken())
    assert done == ["ask"]
    assert answer.finish == "error"
    assert isinstance(answer.error, SegueError)
    assert isinstance(answer.error.__cause__, ZeroDivisionError)

"""The turn alone: what it wants, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.chat.turn import Ask, Intent, Outcome, RunTools, drive, take_turn
from segue.conversation.blocks import Block, Reason, Text, ToolCall, ToolResult
from segue.conversation.events import FinishReason, Reply
from segue.conversation.message import Message
from strategies.examples import AT_LEAST_100


def reply(*ids: str, finish: FinishReason = "stop", text: str = "") -> Reply:
    blocks: tuple[Block, ...] = (Text(text), *(ToolCall(call_id, "look", {}) for call_id in ids))
    return Reply(Message("model", blocks), finish)


def results(*ids: str) -> Message:
    return Message("tool", tuple(ToolResult(call_id, "look", "seen") for call_id in ids))


def intents(outcomes: Iterable[Outcome], max_exchanges: int = 10) -> tuple[list[Intent], str | None]:
    """What a turn wants when these are the outcomes, and how it ends if it does."""
    turn = take_turn(max_exchanges)
    seen = [next(turn)]
    try:
        for outcome in outcomes:
            intent = turn.send(outcome)
            seen.append(intent)
    except StopIteration as ended:
        return seen, ended.value
    return seen, None


def test_a_reply_without_calls_ends_the_turn() -> None:
    assert intents([reply(text="hello")]) == ([Ask(1)], "complete")


@pytest.mark.requirement("Property 7", "REQ-915-031")
def test_all_calls_of_a_reply_are_one_intent_and_their_results_lead_to_the_next_exchange() -> None:
    first = reply("c0", "c1", "c2", finish="tool_calls")
    seen, finish = intents([first, results("c0", "c1", "c2"), reply()])
    assert seen == [Ask(1), RunTools(first.message.calls), Ask(2)]
    assert finish == "complete"


@AT_LEAST_100
@pytest.mark.requirement("Property 9")
@given(limit=st.integers(1, 20))
def test_a_turn_that_would_go_on_for_ever_ends_once_at_its_limit(limit: int) -> None:
    outcomes = [what for n in range(limit + 5) for what in (reply(f"c{n}"), results(f"c{n}"))]
    seen, finish = intents(outcomes, limit)
    assert finish == "max_turns"
    assert [intent for intent in seen if type(intent) is Ask] == [Ask(n) for n in range(1, limit + 1)]


@pytest.mark.parametrize("finish", ["length", "content_filter", "error", "cancelled"])
def test_calls_of_a_reply_that_broke_off_are_closed_and_never_run(finish: FinishReason) -> None:
    cut = reply("c0", finish=finish)
    seen, end = intents([cut, results("c0")])
    reason: Reason = "cancelled_by_user" if finish == "cancelled" else "provider_error"
    assert seen == [Ask(1), RunTools(cut.message.calls, closed=reason)]
    assert end == finish


def test_a_cancelled_call_ends_the_turn() -> None:
    cancelled = Message("tool", (ToolResult("c0", "look", reason="cancelled_by_user"),))
    assert intents([reply("c0"), cancelled])[1] == "cancelled"


def test_a_denied_or_timed_out_call_does_not_end_the_turn() -> None:
    for reason in ("denied", "timed_out"):
        ended = Message("tool", (ToolResult("c0", "look", reason=reason),))
        assert intents([reply("c0"), ended]) == ([Ask(1), RunTools(reply("c0").message.calls), Ask(2)], None)


def test_what_goes_wrong_while_an_intent_is_performed_comes_through() -> None:
    async def broken(intent: Intent) -> Outcome:
        raise ZeroDivisionError(str(intent))

    with pytest.raises(ZeroDivisionError):
        asyncio.run(drive(take_turn(), broken))

"""The turn: from a user's message to a reply without calls, as a generator of wishes.

It says what it wants, an `Ask` or `RunTools`, and is sent what came of it. It neither waits nor writes, so a journal
can be played into it: the same outcomes lead to the same wishes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import Reason, ToolCall, ToolResult
from segue.conversation.events import Finish, Reply
from segue.conversation.message import Message
from segue.errors import JournalError
from segue.sessions.entries import CallEnded, ModelReplied, ToolsAnswered, TurnFinish

if TYPE_CHECKING:
    from segue.sessions.entries import Entry

MAX_EXCHANGES = 10


@final
class Ask(Struct, frozen=True):
    """Ask the model what comes next: the n-th exchange of the turn, counted from 1."""

    number: int


@final
class RunTools(Struct, frozen=True):
    """Run these calls as one batch."""

    calls: tuple[ToolCall, ...]
    closed: Reason | None = None
    """Set when none of them may run: the reason that they all end with."""


Intent: TypeAlias = Ask | RunTools
Outcome: TypeAlias = Reply | Message
"""What came of a wish: the reply that was asked for, or the message of the results."""
Turn: TypeAlias = Generator[Intent, Outcome, TurnFinish]

_ENDS: Mapping[Finish, TurnFinish] = {
    "stop": "complete",
    "tool_calls": "complete",
    "length": "length",
    "content_filter": "content_filter",
    "cancelled": "cancelled",
    "error": "error",
}
_CUT: Mapping[Finish, Reason] = {
    "length": "provider_error",
    "content_filter": "provider_error",
    "error": "provider_error",
    "cancelled": "cancelled_by_user",
}
"""Replies that broke off. Their last call may be half of what was meant, so none of them runs."""


def take_turn(max_exchanges: int = MAX_EXCHANGES) -> Turn:
    for number in range(1, max_exchanges + 1):
        reply = _reply((yield Ask(number)))
        calls = reply.message.calls
        if not calls:
            return _ENDS[reply.finish]
        results = _results((yield RunTools(calls, _CUT.get(reply.finish))), calls)
        if reply.finish in _CUT:
            return _ENDS[reply.finish]
        if any(result.reason == "cancelled_by_user" for result in results):
            return "cancelled"
    return "max_turns"


def recorded_outcomes(entries: Iterable[Entry]) -> list[Outcome]:
    """What a journal says came of the wishes of one turn; send it into a new one to be where the old one was."""
    ended: dict[str, ToolResult] = {}
    outcomes: list[Outcome] = []
    for entry in entries:
        match entry:
            case ModelReplied(message, finish, usage):
                outcomes.append(Reply(message, finish, usage))
            case CallEnded(result):
                ended.setdefault(result.call_id, result)
            case ToolsAnswered(call_ids):
                outcomes.append(Message("tool", tuple(ended[call_id] for call_id in call_ids)))
            case _:
                pass
    return outcomes


def _reply(outcome: Outcome) -> Reply:
    if type(outcome) is not Reply:
        raise _differs("a reply", "the results of calls")
    return outcome


def _results(outcome: Outcome, calls: tuple[ToolCall, ...]) -> tuple[ToolResult, ...]:
    if type(outcome) is not Message:
        raise _differs("the results of calls", "a reply")
    results = tuple(block for block in outcome.blocks if type(block) is ToolResult)
    wanted, got = [call.id for call in calls], [result.call_id for result in results]
    if got != wanted:
        raise _differs(f"the results of {', '.join(wanted)}", f"those of {', '.join(got) or 'none'}")
    return results


def _differs(wanted: str, got: str) -> JournalError:
    return JournalError(
        f"The turn asked for {wanted}, but {got} came.",
        code="differing_wish",
        hint="The journal was written by another version of segue, or is damaged.",
    )

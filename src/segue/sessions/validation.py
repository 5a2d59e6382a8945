"""Whether entries fit what happened before: checked before they are written, for they cannot be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.conversation.blocks import ToolResult, status_of
from segue.sessions import errors
from segue.sessions.entries import (
    Adopted,
    ApprovalAsked,
    ApprovalGiven,
    CallBegun,
    CallEnded,
    CallsScheduled,
    Entry,
    Rewound,
    SessionStarted,
    ToolsAnswered,
    TurnEnded,
    TurnResumed,
    UserSaid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.interaction import Ledger
    from segue.sessions.state import State


def refuse_misfits(state: State, entries: Sequence[Entry]) -> None:
    """Raises JournalError at the first entry that does not fit the state and the entries before it."""
    started, in_turn = state.last_seq > 0, state.in_turn
    calls = _Calls({*state.open_calls()}, set())
    for entry in entries:
        if started is (type(entry) is SessionStarted):
            raise errors.misfit("A session starts once, with its first entry.")
        started = True
        match entry:
            case CallsScheduled() | CallBegun() | CallEnded() | ToolsAnswered():
                _check_calls(entry, calls, state.ledger)
            case ApprovalAsked() | ApprovalGiven():
                _check_waiting(entry, calls)
            case TurnEnded():
                if calls.open:
                    first = min(calls.open)
                    raise errors.misfit(f"The turn ended before its call {first!r} had.", "unanswered_call")
                in_turn = False
            case UserSaid() | TurnResumed():
                in_turn = True
            case Rewound(to):
                if in_turn:
                    raise errors.misfit("Nothing can be undone while a turn is running.", "turn_open")
                state.conversation_after(to)
            case Adopted():
                if in_turn or any(one.call.id in state.ledger for one in entry.interactions):
                    raise errors.misfit("A history is adopted before the session has calls of its own.")
            case _:
                pass


@final
class _Calls(Struct):
    """What became of calls by entries that the state has not taken in yet."""

    open: set[str]
    ended: set[str]


def _check_waiting(entry: ApprovalAsked | ApprovalGiven, calls: _Calls) -> None:
    for call_id in entry.call_ids if isinstance(entry, ApprovalAsked) else (entry.call_id,):
        if call_id not in calls.open:
            raise errors.misfit(f'No call "{call_id}" waits for an answer.', "unknown_call")


def _check_calls(
    entry: CallsScheduled | CallBegun | CallEnded | ToolsAnswered, calls: _Calls, ledger: Ledger
) -> None:
    match entry:
        case CallsScheduled(scheduled):
            if not all(call.id for call in scheduled):
                raise errors.misfit("A call was scheduled without an id.", "call_without_id")
            calls.open |= {call.id for call in scheduled if not ledger.results((call.id,))}
        case CallBegun(call_id) | CallEnded(ToolResult(call_id)):
            if not (call_id in calls.open or call_id in calls.ended or call_id in ledger):
                raise errors.misfit(f'The call "{call_id}" was never scheduled.', "unknown_call")
            if type(entry) is CallEnded:
                if status_of(entry.result) == "pending":
                    raise errors.misfit(f'The result of call "{call_id}" is empty.', "empty_result")
                calls.ended.add(call_id)
                calls.open.discard(call_id)
        case ToolsAnswered(call_ids):
            for call_id in call_ids:
                if call_id not in calls.ended and not ledger.results((call_id,)):
                    raise errors.misfit(
                        f'A batch was answered before its call "{call_id}" had ended.', "unanswered_call"
                    )

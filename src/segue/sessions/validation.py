"""Whether entries fit what happened before: checked before they are written, for they cannot be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.blocks import ToolCall, ToolResult, status_of
from segue.sessions import errors
from segue.sessions.entries import (
    Adopted,
    CallBegun,
    CallEnded,
    CallsScheduled,
    Entry,
    ModelReplied,
    Rewound,
    SessionStarted,
    ToolsAnswered,
    TurnEnded,
    TurnResumed,
    UserSaid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.sessions.state import State


def refuse_misfits(state: State, entries: Sequence[Entry]) -> None:
    """Raises JournalError at the first entry that does not fit the state and the entries before it."""
    check = EntryCheck(state)
    for entry in entries:
        check.take(entry)


class EntryCheck:
    """What the state would know after some entries that it has not taken in yet, as far as it matters to the next."""

    __slots__ = ("_ended", "_in_turn", "_scheduled", "_started", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._started = state.last_seq > 0
        self._in_turn = state.in_turn
        self._scheduled: set[str] = set()
        self._ended: set[str] = set()

    def take(self, entry: Entry) -> None:
        if self._started is (type(entry) is SessionStarted):
            raise errors.misfit("A session starts once, with its first entry.")
        self._started = True
        match entry:
            case CallBegun(call_id):
                self._know(call_id)
            case CallEnded(result):
                self._end(result)
            case ToolsAnswered(call_ids):
                self._answer(call_ids)
            case ModelReplied():
                pass
            case CallsScheduled(calls):
                self._schedule(calls)
            case TurnEnded():
                self._end_turn()
            case UserSaid() | TurnResumed():
                self._in_turn = True
            case Rewound(to):
                self._rewind(to)
            case Adopted():
                self._adopt(entry)
            case _:
                pass

    def _schedule(self, calls: tuple[ToolCall, ...]) -> None:
        if not all(call.id for call in calls):
            raise errors.misfit("A call was scheduled without an id.", "call_without_id")
        known = self._state.ledger
        for call in calls:
            if call.id not in known or not known[call.id].finished:
                self._scheduled.add(call.id)

    def _know(self, call_id: str) -> None:
        if not (call_id in self._scheduled or call_id in self._ended or call_id in self._state.ledger):
            raise errors.misfit(f'The call "{call_id}" was never scheduled.', "unknown_call")

    def _end(self, result: ToolResult) -> None:
        self._know(result.call_id)
        if status_of(result) == "pending":
            raise errors.misfit(f'The result of call "{result.call_id}" is empty.', "empty_result")
        self._ended.add(result.call_id)
        self._scheduled.discard(result.call_id)

    def _answer(self, call_ids: tuple[str, ...]) -> None:
        for call_id in call_ids:
            if call_id in self._ended:
                continue
            known = self._state.ledger.get(call_id)
            if known is None or not known.finished:
                raise errors.misfit(
                    f'A batch was answered before its call "{call_id}" had ended.', "unanswered_call"
                )

    def _end_turn(self) -> None:
        pending = {*self._state.open_calls(), *self._scheduled} - self._ended
        if pending:
            raise errors.misfit(f"The turn ended before its call {min(pending)!r} had.", "unanswered_call")
        self._in_turn = False

    def _rewind(self, to: int) -> None:
        if self._in_turn:
            raise errors.misfit("Nothing can be undone while a turn is running.", "turn_open")
        self._state.conversation_after(to)

    def _adopt(self, entry: Adopted) -> None:
        if self._in_turn or any(one.call.id in self._state.ledger for one in entry.interactions):
            raise errors.misfit("A history is adopted before the session has calls of its own.")

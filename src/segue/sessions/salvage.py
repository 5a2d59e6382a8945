"""What can be saved of a damaged session: everything before and after the damage, with a note in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.blocks import Text, ToolCall
from segue.conversation.message import Message
from segue.errors import JournalError
from segue.sessions.entries import (
    CallBegun,
    CallEnded,
    CallsScheduled,
    DamagedEntry,
    Entry,
    ModelReplied,
    NoteAdded,
    Record,
    SessionStarted,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.recovery import unanswered_calls
from segue.sessions.state import State
from segue.sessions.validation import refuse_misfits

if TYPE_CHECKING:
    from collections.abc import Iterable


def salvage_state(items: Iterable[Record | DamagedEntry]) -> tuple[State, list[DamagedEntry]]:
    """The state of the entries that can be read, and those that are missing from it."""
    state, damages = State(), list[DamagedEntry]()
    for item in items:
        if not state.last_seq and not (isinstance(item, Record) and isinstance(item.entry, SessionStarted)):
            state.apply(item.seq, SessionStarted())
        if damages and (results := _unanswered_results(state, item)):
            state.apply(item.seq, results)
        damage = item if isinstance(item, DamagedEntry) else _take(state, item)
        if damage is not None:
            damages.append(damage)
            text = f"[Entry {damage.seq} of this session is damaged and missing here.]"
            state.apply(damage.seq, NoteAdded(Message("user", (Text(text),), instruction=True)))
    return state, damages


def _unanswered_results(state: State, item: Record | DamagedEntry) -> ToolsAnswered | None:
    """Results whose batch would never be answered, because that very entry is damaged."""
    if not isinstance(item, Record) or not isinstance(item.entry, UserSaid | ModelReplied | TurnEnded):
        return None
    ids = (call.id for call in unanswered_calls(state))
    known = tuple(call_id for call_id in ids if call_id in state.ledger and state.ledger[call_id].finished)
    return ToolsAnswered(known) if known else None


def _take(state: State, record: Record) -> DamagedEntry | None:
    """None if the entry is part of the state now."""
    try:
        for entry in (*_schedule_unknown(state, record.entry), record.entry):
            refuse_misfits(state, (entry,))
            state.apply(record.seq, entry)
    except (JournalError, KeyError) as error:
        why = error.message if isinstance(error, JournalError) else "it names what is missing"
        return DamagedEntry(record.seq, f"entry {record.seq}", why)
    return None


def _schedule_unknown(state: State, entry: Entry) -> tuple[CallsScheduled, ...]:
    """Calls whose own entry is damaged: those that a reply made are found in it, of others only the name is known."""
    match entry:
        case CallBegun(call_id):
            named = {call_id: ""}
        case CallEnded(result):
            named = {result.call_id: result.name}
        case ToolsAnswered(call_ids):
            named = dict.fromkeys(call_ids, "")
        case _:
            return ()
    unknown = {call_id: name for call_id, name in named.items() if call_id not in state.ledger}
    if not unknown:
        return ()
    made = {call.id: call for message in state.conversation.messages for call in message.calls}
    calls = (made.get(call_id) or ToolCall(call_id, name, {}) for call_id, name in unknown.items())
    return (CallsScheduled(tuple(calls)),)

"""What a session needs after a crash or after damage.

After a crash: the entries that its process would have written, had it been cancelled. After damage: everything before
and after it, with a note in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.conversation.blocks import Text, ToolCall, ToolResult
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
from segue.sessions.state import State, refuse_misfits, replay

if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_BEGUN: Final = "No result: the session was interrupted before this call began, so it did not run."


def closing_entries(state: State) -> list[Entry]:
    """End what is open. A tool that was started may have had effects, so its result is an interruption; none is run again."""
    if not state.in_turn:
        return []
    entries: list[Entry] = []
    unanswered = _unanswered_calls(state)
    if unscheduled := tuple(call for call in unanswered if call.id not in state.ledger):
        entries.append(CallsScheduled(unscheduled))
    named = {call.id: call.name for call in unanswered if call.id not in state.ledger}
    named |= {call_id: state.ledger[call_id].call.name for call_id in state.open_calls()}
    entries += [CallEnded(_interrupted(state, call_id, name)) for call_id, name in named.items()]
    if unanswered:
        entries.append(ToolsAnswered(tuple(call.id for call in unanswered)))
    return [*entries, TurnEnded("complete" if state.answered else "cancelled")]


def _interrupted(state: State, call_id: str, name: str) -> ToolResult:
    output = None if call_id in state.begun else NOT_BEGUN
    return ToolResult(call_id, name, output, reason="interrupted")


def _unanswered_calls(state: State) -> tuple[ToolCall, ...]:
    """The calls of the last reply that nobody answered. Notes may stand behind it."""
    answered: set[str] = set()
    for message in reversed(state.conversation.messages):
        if message.speaker == "model":
            return tuple(call for call in message.calls if call.id not in answered)
        answered.update(block.call_id for block in message.blocks if isinstance(block, ToolResult))
    return ()


def salvage_state(items: Sequence[Record | DamagedEntry]) -> tuple[State, list[DamagedEntry]]:
    """The state of the entries that can be read, and those that are missing from it."""
    records = [item for item in items if isinstance(item, Record)]
    if len(records) == len(items):
        return replay(records), []
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
    ids = (call.id for call in _unanswered_calls(state))
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

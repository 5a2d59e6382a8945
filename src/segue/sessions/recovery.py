"""What a session needs after a crash: the entries that its process would have written, had it been told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.blocks import ToolResult
from segue.sessions.entries import CallEnded, CallsScheduled, Entry, ToolsAnswered, TurnEnded

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolCall
    from segue.sessions.journal import State


def closing_entries(state: State) -> list[Entry]:
    """End what is open. A tool that was started may have had effects, and its result says so; none is run again."""
    if not state.in_turn:
        return []
    entries: list[Entry] = []
    calls = _unanswered(state)
    if unscheduled := tuple(call for call in calls if call.id not in state.ledger):
        entries.append(CallsScheduled(unscheduled))
    for call in calls:
        known = state.ledger.get(call.id)
        if known is None or not known.finished:
            entries.append(CallEnded(ToolResult(call.id, call.name, reason="interrupted")))
    if calls:
        entries.append(ToolsAnswered(tuple(call.id for call in calls)))
    return [*entries, TurnEnded("cancelled")]


def _unanswered(state: State) -> tuple[ToolCall, ...]:
    """The calls of the last reply, if no results follow it."""
    messages = state.conversation.messages
    last = messages[-1] if messages else None
    return last.calls if last is not None and last.speaker == "model" else ()

"""What a session needs after a crash: the entries that its process would have written, had it been cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.conversation.blocks import ToolResult
from segue.sessions.entries import CallEnded, CallsScheduled, Entry, ToolsAnswered, TurnEnded

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolCall
    from segue.sessions.state import State

NOT_BEGUN: Final = "No result: the session was interrupted before this call began, so it did not run."


def closing_entries(state: State) -> list[Entry]:
    """End what is open. A tool that was started may have had effects, so its result is an interruption; none is run again."""
    if not state.in_turn:
        return []
    entries: list[Entry] = []
    unanswered = unanswered_calls(state)
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


def unanswered_calls(state: State) -> tuple[ToolCall, ...]:
    """The calls of the last reply that nobody answered. Notes may stand behind it."""
    answered: set[str] = set()
    for message in reversed(state.conversation.messages):
        if message.speaker == "model":
            return tuple(call for call in message.calls if call.id not in answered)
        answered.update(block.call_id for block in message.blocks if isinstance(block, ToolResult))
    return ()

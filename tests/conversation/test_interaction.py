"""The book of calls: one writer, first end stands, writing twice is writing once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import ToolCall, ToolResult, status_of
from segue.conversation.interaction import Interaction, Ledger
from segue.errors import UsageError

CALL = ToolCall("c0", "read", {"path": "a"})
DONE = ToolResult("c0", "read", "content")


@pytest.mark.requirement("REQ-915-046")
def test_a_call_is_pending_until_it_is_settled() -> None:
    ledger = Ledger()
    assert ledger.schedule(CALL).status == "pending"
    assert not ledger["c0"].finished
    assert ledger.settle(DONE).status == "complete"
    assert ledger["c0"] == Interaction(CALL, DONE)
    assert ledger["c0"].finished


@pytest.mark.requirement("REQ-915-009", "REQ-915-046")
def test_the_first_end_stands() -> None:
    ledger = Ledger([Interaction(CALL)])
    ledger.cancel("c0", "cancelled_by_user")
    ledger.settle(DONE)
    assert ledger["c0"].status == "cancelled"
    ledger = Ledger([Interaction(CALL, DONE)])
    ledger.cancel("c0")
    ledger.settle(ToolResult("c0", "read", error="late failure"))
    assert ledger["c0"].result == DONE


def test_scheduling_again_changes_nothing() -> None:
    ledger = Ledger([Interaction(CALL, DONE)])
    assert ledger.schedule(ToolCall("c0", "write")).call == CALL


def test_a_result_that_says_nothing_settles_nothing() -> None:
    ledger = Ledger([Interaction(CALL)])
    assert ledger.settle(ToolResult("c0", "read", complete=False)).status == "pending"


@pytest.mark.requirement("REQ-915-046")
def test_a_finished_interaction_read_from_anywhere_is_not_reopened() -> None:
    ledger = Ledger(
        [Interaction(CALL, DONE), Interaction(CALL), Interaction(CALL, ToolResult("c0", error="no"))]
    )
    assert ledger["c0"].result == DONE


results = st.sampled_from(
    [
        DONE,
        ToolResult("c0", "read", "other"),
        ToolResult("c0", "read", error="failed"),
        ToolResult("c0", "read", reason="interrupted"),
        ToolResult("c0", "read"),
    ]
)


@pytest.mark.requirement("REQ-915-009", "REQ-915-046")
@given(st.lists(results))
def test_terminal_states_never_change_and_writes_are_idempotent(ends: list[ToolResult]) -> None:
    ledger, twice = Ledger([Interaction(CALL)]), Ledger([Interaction(CALL)])
    for end in ends:
        ledger.settle(end)
        twice.settle(end)
        twice.settle(end)
    first = next((end for end in ends if status_of(end) != "pending"), None)
    assert ledger["c0"].result == first
    assert dict(ledger) == dict(twice)


def test_what_was_written_since_is_told_in_order() -> None:
    ledger = Ledger([Interaction(CALL)])
    before = ledger.writes
    ledger.schedule(ToolCall("c1", "write"))
    ledger.settle(DONE)
    assert ledger.written_since(before) == ["c1", "c0"]
    assert list(ledger) == ["c0", "c1"]
    assert len(ledger) == 2
    assert repr(ledger) == "Ledger(2 interactions)"


def test_a_call_without_an_id_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        Ledger().schedule(ToolCall("", "read", {"key": "sk-secret"}))
    assert refused.value.code == "call_without_id"
    assert refused.value.path == "call.id"
    assert "Append" in refused.value.hint
    assert "sk-secret" not in str(refused.value)
    with pytest.raises(UsageError):
        Ledger([Interaction(ToolCall("", "read"))])


@pytest.mark.parametrize("end", ["settle", "cancel"])
def test_a_call_that_was_never_scheduled_cannot_end(end: str) -> None:
    ledger = Ledger()
    with pytest.raises(UsageError) as refused:
        if end == "settle":
            ledger.settle(ToolResult("c9", "read", "sk-secret"))
        else:
            ledger.cancel("c9")
    assert refused.value.code == "unknown_call"
    assert refused.value.path == "result.call_id"
    assert '"c9"' in str(refused.value)
    assert "Schedule" in refused.value.hint
    assert "sk-secret" not in str(refused.value)

"""A conversation repaired for good."""

from __future__ import annotations

from hypothesis import example, given

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, model, tool, user
from segue.interop.repair import repair_conversation
from strategies.histories import conversations
from strategies.targets import TARGETS

CALL = ToolCall("c0", "read", raw="{}")


@given(conversation=conversations(TARGETS["anthropic"]))
@example(conversation=Conversation((user("a"), model("b"), user(CALL))))
@example(conversation=Conversation((model("a", ToolResult("", "read", "x")),)))
def test_repairing_a_repaired_conversation_changes_nothing(conversation: Conversation) -> None:
    once = repair_conversation(conversation)
    assert repr(repair_conversation(once)) == repr(once)


def test_the_real_result_of_the_ledger_is_the_only_one() -> None:
    stored = (
        user("a"),
        model(CALL),
        tool(ToolResult("c0", "read", "old")),
        user("b", ToolResult("c0", "read", "older")),
    )
    ledger = Ledger([Interaction(CALL, ToolResult("c0", "read", "true"))])
    repaired = repair_conversation(Conversation(stored), ledger)
    assert repaired.messages == (
        user("a"),
        model(CALL),
        tool(ToolResult("c0", "read", "true")),
        user("b"),
    )

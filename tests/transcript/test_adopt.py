"""Taking a foreign history in, and rebuilding the ledger from one's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.interaction import Interaction
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.transcript.adopt import adopt, rebuild
from strategies.histories import conversations
from strategies.targets import TARGETS

requirement = pytest.mark.requirement
ORIGIN = Origin("openai_chat", "openai", "https://api.invalid", "m")


def wish(native_id: str, name: str = "read") -> ToolCall:
    return ToolCall("", name, {}, native_id=native_id)


def found(native_id: str, output: str, name: str = "") -> ToolResult:
    return ToolResult("", name, output, native_id=native_id)


@requirement("REQ-915-014")
def test_calls_get_ids_from_their_position_and_keep_the_raw_one() -> None:
    adopted = adopt(
        [
            user("a"),
            model("looking", wish("call_1"), wish("call_1"), origin=ORIGIN),
            tool(found("call_1", "one"), found("call_1", "two")),
            Message("user", (Text("note"),), instruction=True),
        ],
        system="Be brief.",
    )
    conversation = adopted.conversation
    assert (conversation.system, conversation.minted) == ("Be brief.", 2)
    assert [(call.id, call.native_id) for call in conversation.messages[1].calls] == [
        ("c0", "call_1"),
        ("c1", "call_1"),
    ]
    assert conversation.messages[1].origin == ORIGIN
    assert conversation.messages[2].blocks == (
        ToolResult("c0", "read", "one", native_id="call_1"),
        ToolResult("c1", "read", "two", native_id="call_1"),
    )
    assert conversation.messages[3].instruction
    assert adopted.repairs == ()


def test_a_canonical_id_of_somebody_else_becomes_the_raw_one() -> None:
    adopted = adopt([model(ToolCall("theirs", "read")), tool(ToolResult("theirs", "read", "x"))])
    assert adopted.conversation.messages[0].calls[0].native_id == "theirs"
    assert adopted.conversation.messages[1].blocks == (ToolResult("c0", "read", "x", native_id="theirs"),)


@requirement("REQ-915-047", "REQ-915-039")
def test_what_was_set_right_is_told_with_the_new_ids() -> None:
    adopted = adopt(
        [user("a"), tool(wish("x"), found("x", "1")), model("b", found("gone", "2"))], dialect="openai_chat"
    )
    assert [(repair.kind, repair.path, repair.call_ids) for repair in adopted.repairs] == [
        ("speaker_corrected", "messages[1].blocks[0]", ("c0",)),
        ("speaker_corrected", "messages[2].blocks[1]", ("c1",)),
        ("call_reconstructed", "messages[2].blocks[1]", ("c1",)),
    ]
    assert {repair.dialect for repair in adopted.repairs} == {"openai_chat"}


@requirement("REQ-915-006")
def test_a_result_whose_call_is_gone_is_kept_with_a_call_made_up_around_it() -> None:
    adopted = adopt([user("a"), tool(found("gone", "content", "read")), user("b")])
    made, kept = adopted.conversation.messages[1:3]
    assert made.calls == (ToolCall("c0", "read", native_id="gone", reconstructed=True),)
    assert kept.blocks == (ToolResult("c0", "read", "content", native_id="gone"),)


def test_several_results_for_one_call_are_all_kept() -> None:
    adopted = adopt([model(wish("x")), tool(found("x", "1")), tool(found("x", "2"))])
    assert [
        block.output for block in adopted.conversation.messages[1].blocks if isinstance(block, ToolResult)
    ] == [
        "1",
        "2",
    ]


def test_an_empty_reply_is_dropped_and_reported() -> None:
    adoption = adopt([user("Hello."), Message("model", ()), user("Are you there?")], dialect="anthropic")
    assert [message.speaker for message in adoption.conversation.messages] == ["user", "user"]
    assert [(repair.kind, repair.path) for repair in adoption.repairs] == [("blank_text", "messages[1]")]


def test_nothing_becomes_nothing() -> None:
    assert adopt([]).conversation == Conversation()


@requirement("REQ-915-008")
@given(st.data())
def test_no_text_and_no_output_is_lost_on_the_way_in(data: st.DataObject) -> None:
    conversation = data.draw(conversations(TARGETS["openai_chat"]))
    adopted = adopt(conversation.messages).conversation

    def held(one: Conversation) -> list[str]:
        return sorted(
            repr((block.output, block.error, block.reason)) if isinstance(block, ToolResult) else block.text
            for message in one.messages
            for block in message.blocks
            if isinstance(block, (ToolResult, Text)) and (isinstance(block, ToolResult) or block.text)
        )

    assert held(adopted) == held(conversation)


@requirement("REQ-915-014")
@given(st.data())
def test_adopting_again_changes_nothing_and_tells_nothing(data: st.DataObject) -> None:
    once = adopt(data.draw(conversations(TARGETS["openai_chat"])).messages)
    twice = adopt(once.conversation.messages)
    thrice = adopt(twice.conversation.messages)
    assert thrice.conversation == twice.conversation
    assert twice.repairs == thrice.repairs == ()


# The ledger from the history alone


@requirement("REQ-915-046", "REQ-915-048")
def test_a_ledger_is_rebuilt_by_the_ladder() -> None:
    ends: dict[str, ToolResult | None] = {
        "c0": ToolResult("c0", "t", "done"),
        "c1": ToolResult("c1", "t", error="failed"),
        "c2": ToolResult("c2", "t", reason="cancelled_by_user"),
        "c3": ToolResult("c3", "t", complete=False),
        "c4": None,
    }
    conversation = Conversation(
        (
            user("a"),
            model(*(ToolCall(call_id, "t") for call_id in ends)),
            tool(*(end for end in ends.values() if end is not None)),
        )
    )
    ledger = rebuild(conversation)
    assert {call_id: one.status for call_id, one in ledger.items()} == {
        "c0": "complete",
        "c1": "error",
        "c2": "cancelled",
        "c3": "pending",
        "c4": "pending",
    }
    assert ledger["c0"] == Interaction(ToolCall("c0", "t"), ends["c0"])


@requirement("REQ-915-046")
def test_an_id_that_several_calls_share_speaks_for_none_of_them() -> None:
    conversation = Conversation(
        (model(ToolCall("x", "t"), ToolCall("x", "t"), ToolCall("", "t"), Reasoning("hm")),)
    )
    assert dict(rebuild(conversation)) == {}

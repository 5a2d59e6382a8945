"""What was said, and how ids are minted while it is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user

ORIGIN = Origin("openai_chat", "openai", "https://api.invalid", "model-1")


def ids_of(conversation: Conversation) -> list[str]:
    return [call.id for message in conversation.messages for call in message.calls]


def test_strings_are_texts() -> None:
    assert user("hello").blocks == (Text("hello"),)
    assert tool("beside").blocks == (Text("beside"),)
    said = model("a", Reasoning("hm"), "b", origin=ORIGIN)
    assert (said.text, said.origin) == ("ab", ORIGIN)


def test_appending_gives_a_new_conversation_and_leaves_the_old_one() -> None:
    first = Conversation(system="Be brief.").append(user("hello"))
    second = first.append(model("hi"))
    assert [message.speaker for message in first.messages] == ["user"]
    assert [message.speaker for message in second.messages] == ["user", "model"]
    assert second.system == "Be brief."


@pytest.mark.requirement("REQ-915-014")
def test_ids_are_minted_from_the_position_and_not_from_what_a_provider_said() -> None:
    conversation = Conversation().append(
        model(ToolCall("", "read", native_id="call_abc"), ToolCall("", "read", native_id="call_abc")),
        model(ToolCall("", "read", native_id="functions.read:0")),
    )
    assert ids_of(conversation) == ["c0", "c1", "c2"]
    assert conversation.minted == 3


@pytest.mark.requirement("REQ-915-014")
def test_a_message_without_calls_stays_the_very_object_it_was() -> None:
    said = user("hello")
    assert Conversation().append(said).messages[0] is said


def test_an_id_is_not_given_again_after_compaction() -> None:
    long = Conversation().append(model(ToolCall("", "read")), tool(ToolResult("c0", "read", "x")))
    compacted = Conversation((user("summary"),), long.system, long.minted)
    assert ids_of(compacted.append(model(ToolCall("", "write")))) == ["c1"]


def test_an_id_given_by_hand_is_never_minted() -> None:
    by_hand = Conversation((model(ToolCall("c0", "read")),))
    assert ids_of(by_hand.append(model(ToolCall("", "write")))) == ["c0", "c1"]
    beside = Conversation().append(model(ToolCall("", "write"), ToolCall("c0", "read"), ToolCall("", "x")))
    assert ids_of(beside) == ["c1", "c0", "c3"]
    later = Conversation().append(model(ToolCall("c7", "read"))).append(model(ToolCall("", "write")))
    assert ids_of(later) == ["c7", "c8"]


call_ids = st.sampled_from(["", "", "c0", "c1", "c2", "c10", "mine", "c01", "C0"])


@pytest.mark.requirement("REQ-915-014")
@given(
    stored=st.lists(call_ids.filter(bool), max_size=4),
    batches=st.lists(st.lists(call_ids, max_size=4), max_size=4),
)
def test_a_minted_id_differs_from_every_other(stored: list[str], batches: list[list[str]]) -> None:
    conversation = Conversation((Message("model", tuple(ToolCall(call_id, "read") for call_id in stored)),))
    minted: list[str] = []
    for batch in batches:
        before = set(ids_of(conversation))
        conversation = conversation.append(Message("model", tuple(ToolCall(one, "read") for one in batch)))
        new = [call.id for call in conversation.messages[-1].calls]
        fresh = [made for made, given in zip(new, batch, strict=True) if not given]
        assert before.isdisjoint(fresh)
        assert set(fresh).isdisjoint(batch)
        minted += fresh
    assert len(set(minted)) == len(minted)


@pytest.mark.requirement("Property 30")
def test_every_speaker_there_is_has_a_way_to_say_something() -> None:
    said = (user("a"), model("b"), tool(ToolResult("c0", "read", "c")))
    assert [message.speaker for message in said] == ["user", "model", "tool"]
    assert all(message.blocks for message in said)

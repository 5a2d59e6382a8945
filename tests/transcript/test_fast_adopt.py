"""Which histories the fast path adopts, and which it leaves to the slow path."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.transcript.adopt import Adoption, adopt
from segue.transcript.fast import fast_paths
from segue.transcript.fast.fast_adopt import adopt_fast
from strategies.histories import Told, whole_conversations


def _adopt_slow(messages: Sequence[Message]) -> Adoption:
    with fast_paths.disabled():
        return adopt(messages)


@given(whole_conversations())
def test_a_whole_history_is_adopted_fast(told: Told) -> None:
    messages = told.conversation.messages
    fast = adopt_fast(messages)
    assert fast is not None
    assert _adopt_slow(messages) == Adoption(Conversation(tuple(fast[0]), minted=fast[1]))


ASKED = model("looking", ToolCall("", "read", native_id="a"), ToolCall("", "write", native_id="b"))
READ, WRITTEN = ToolResult("", "read", "1", native_id="a"), ToolResult("", "write", "2", native_id="b")


@pytest.mark.parametrize(
    "messages",
    [
        (user("hi"), ASKED, tool(READ, WRITTEN), model("done")),
        (ASKED, tool(READ), tool(WRITTEN), ASKED, tool(READ, WRITTEN)),
        (ASKED, tool(READ), user("stop")),
        (ASKED,),
        (),
    ],
    ids=["one_message", "several_messages_and_ids_again", "cut_off", "at_the_end", "nothing"],
)
def test_calls_answered_in_their_turn_are_clean(messages: tuple[Message, ...]) -> None:
    fast = adopt_fast(messages)
    assert fast is not None
    assert _adopt_slow(messages) == Adoption(Conversation(tuple(fast[0]), minted=fast[1]))


@pytest.mark.parametrize(
    "messages",
    [
        (user(),),
        (user(READ),),
        (model(),),
        (model(READ),),
        (model("one"), model("two")),
        (tool(READ),),
        (ASKED, tool()),
        (ASKED, tool("beside")),
        (ASKED, tool(WRITTEN, READ)),
        (ASKED, tool(READ, WRITTEN), tool(READ)),
        (ASKED, tool(ToolResult("", "write", "1", native_id="a"))),
        (ASKED, user("wait"), tool(READ, WRITTEN)),
    ],
    ids=lambda messages: "-".join(message.speaker for message in messages),
)
def test_what_is_not_plainly_clean_is_left_to_the_slow_path(messages: tuple[Message, ...]) -> None:
    assert adopt_fast(messages) is None
    assert adopt(messages) == _adopt_slow(messages)


SINGLE = model("looking", ToolCall("", "read", native_id="a"))


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize(
    "odd",
    [
        SINGLE,
        tool(READ),
        tool(WRITTEN),
        tool(READ, READ),
        tool(ToolResult("a", "", "1")),
        tool(ToolResult("", "write", "1", native_id="a")),
        tool("beside"),
        tool(),
        user("wait"),
        user(READ),
        model("done"),
        model(),
        model(READ, ToolCall("", "read", native_id="a")),
        model(ToolCall("a", "read", native_id="b"), "so"),
        model(ToolCall("", "read", native_id="a")),
        ASKED,
    ],
    ids=str,
)
def test_whatever_stands_in_a_run_of_exchanges_is_adopted_as_ever(odd: Message, at: int) -> None:
    run = [user("hi"), SINGLE, tool(READ), SINGLE, tool(READ)]
    for messages in ([*run[:at], odd, *run[at:]], [*run[:at], odd, *run[at + 1 :]]):
        assert adopt(messages) == _adopt_slow(messages)

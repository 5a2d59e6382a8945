"""The short way in gives what the long way gives: for any history, and for those it is made for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Block, Code, Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.transcript.adopt import Adoption, adopt, adopt_slow
from segue.transcript.fast_adopt import adopt_fast
from strategies.histories import FOREIGN, Told, conversations, values, whole_conversations
from strategies.targets import TARGETS

RULES = TARGETS["openai_chat"]
SEAL = Seal(FOREIGN, "SEALED")
raw_ids = st.sampled_from(("", "a", "b", "call_1", "c0"))
names = st.sampled_from(("read", "write", ""))
SHOWN: tuple[Block, ...] = (
    Text("hello"),
    Text("", SEAL),
    Media("image", url="https://x.invalid"),
    Code("1"),
)
shown = st.sampled_from(SHOWN)
THOUGHT: Block = Reasoning("hm", SEAL)


@st.composite
def replies(draw: st.DrawFn) -> list[Message]:
    """A model's message and results for some of its calls from the first on, in one message or in several."""
    calls = [
        ToolCall(
            draw(raw_ids), draw(names), draw(values), "{}", draw(raw_ids), draw(st.sampled_from((None, SEAL)))
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    said: list[Block] = [*draw(st.lists(st.sampled_from((*SHOWN, THOUGHT)), max_size=2)), *calls]
    messages = [Message("model", tuple(draw(st.permutations(said))), draw(st.sampled_from((None, FOREIGN))))]
    results = []
    for call in messages[0].calls[: draw(st.integers(0, 3))]:
        name = draw(st.sampled_from((call.name, call.name, "", "read")))
        output = draw(values)
        complete = draw(st.sampled_from((None, True)))
        results.append(ToolResult(call.id, name, output, complete=complete, native_id=call.native_id))
    cut = draw(st.integers(0, len(results)))
    return messages + [tool(*part) for part in (results[:cut], results[cut:]) if part]


@st.composite
def nearly_clean(draw: st.DrawFn) -> list[Message]:
    """Histories in good order, whose ids are used again or missing, and in which at most two messages changed place."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 4)):
            said = tuple(draw(st.lists(shown, min_size=1, max_size=2)))
            messages.append(Message("user", said, instruction=draw(st.booleans())))
        messages += draw(replies())
    if draw(st.integers(0, 3)) == 0:
        one, other = (draw(st.integers(0, len(messages) - 1)) for _ in "ab")
        messages[one], messages[other] = messages[other], messages[one]
    return messages


@given(conversations(RULES))
def test_any_history_is_taken_in_as_if_it_were_heard(conversation: Conversation) -> None:
    messages = conversation.messages
    assert adopt(messages, system="s", dialect="d") == adopt_slow(messages, system="s", dialect="d")


@given(nearly_clean())
def test_a_history_in_good_order_is_taken_in_as_if_it_were_heard(messages: list[Message]) -> None:
    assert adopt(messages, system="s", dialect="d") == adopt_slow(messages, system="s", dialect="d")


@given(whole_conversations())
def test_a_whole_history_is_taken_in_without_being_heard(told: Told) -> None:
    messages = told.conversation.messages
    clean = adopt_fast(messages)
    assert clean is not None
    assert adopt_slow(messages) == Adoption(Conversation(tuple(clean[0]), minted=clean[1]))


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
    clean = adopt_fast(messages)
    assert clean is not None
    assert adopt_slow(messages) == Adoption(Conversation(tuple(clean[0]), minted=clean[1]))


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
def test_what_is_not_plainly_clean_is_left_to_the_listener(messages: tuple[Message, ...]) -> None:
    assert adopt_fast(messages) is None
    assert adopt(messages) == adopt_slow(messages)

"""The short way through clean histories says exactly what the long way says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Media, Text, ToolCall, ToolResult
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.transcript.composer import Composer
from segue.transcript.fast_render import compose_exchange, compose_message
from segue.transcript.policy import DEFAULT
from segue.transcript.render import _as_a_whole, render
from segue.transcript.rules import Rules
from strategies.targets import TARGETS, Replay, for_every_target

texts = st.sampled_from(["a", "b c", "", " ", "é", "\ud800"])
outputs = st.sampled_from(["x", "x", "x", "", " ", "é", "\ud800", 5, None])
call_ids = st.sampled_from(["c0", "c1", "c2", "c3", "c4", ""])
names = st.sampled_from(["read", "read", "read", "write", "no good"])
raws = st.sampled_from(["{}", "{}", '{"a": 1}', "", "[]"])


@st.composite
def nearly_clean(draw: st.DrawFn, rules: Rules) -> Conversation:
    made: list[Message] = [user("a")]
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 5)) == 0:
            instruction = draw(st.sampled_from([False, False, True]))
            made.append(Message("user", (Text(draw(texts)),), instruction=instruction))
        if draw(st.integers(0, 2)) == 0:
            made.append(model(draw(texts), origin=draw(st.sampled_from([None, rules.target]))))
            continue
        calls = [
            ToolCall(
                draw(call_ids), draw(names), None, draw(raws), draw(st.sampled_from(["", "own", "abcDEF123"]))
            )
            for _ in range(draw(st.integers(1, 3)))
        ]
        said = [Text(draw(texts)) for _ in range(draw(st.integers(0, 1)))]
        made.append(model(*said, *calls, origin=draw(st.sampled_from([None, rules.target]))))
        media = draw(st.sampled_from([(), (), (), (Media("image", "image/png", "eA=="),)]))
        made.append(tool(*(ToolResult(call.id, call.name, draw(outputs), media=media) for call in calls)))
    return Conversation(tuple(made))


@pytest.mark.requirement("REQ-915-010")
@given(data=st.data())
@for_every_target
def test_both_ways_give_the_same_steps_and_the_same_repairs(rules: Rules, data: Replay) -> None:
    conversation = data.draw(nearly_clean(rules))
    book = None
    if data.draw(st.booleans()):
        known = data.draw(st.sampled_from(["x", "better", None]))
        calls = {call.id: call for message in conversation.messages for call in message.calls if call.id}
        book = Ledger(Interaction(call, ToolResult(call.id, call.name, known)) for call in calls.values())
    short = render(conversation, book, rules)
    long = _as_a_whole(conversation, Composer(rules, DEFAULT, book))
    assert short.steps == long.steps
    assert sorted(map(str, short.repairs)) == sorted(map(str, long.repairs))


def test_clean_exchanges_need_no_hearing_and_give_back_own_ids() -> None:
    rules = TARGETS["openai_chat"]
    made: list[Message] = [user("a")]
    for number in range(4):
        call = ToolCall(f"c{number}", "read", raw="{}", native_id="call_own" if number else "")
        made += [model("b", call, origin=rules.target), tool(ToolResult(call.id, "read", "x"))]
    transcript = render(Conversation(tuple(made)), None, rules)
    assert [repair.path for repair in transcript.repairs] == [
        "messages[5].blocks[1]",
        "messages[7].blocks[1]",
    ]


def test_plain_text_and_the_first_call_of_a_tool_are_clean() -> None:
    composer = Composer(TARGETS["openai_chat"], DEFAULT, None)
    call = ToolCall("c0", "read", raw="{}")
    assert compose_message(composer, user("a"), 0)
    assert compose_message(composer, model("b"), 1)
    assert compose_exchange(composer, model("c", call), tool(ToolResult("c0", "read", "x")), 2)
    assert not compose_message(composer, tool("beside"), 4)
    assert composer.names.names == {"read": "read"}

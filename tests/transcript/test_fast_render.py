"""The short way through clean histories says exactly what the long way says."""

from __future__ import annotations

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.transcript.composer import Composer
from segue.transcript.fast.fast_render import compose_exchange, compose_message
from segue.transcript.policy import DEFAULT
from segue.transcript.render import render
from strategies.targets import TARGETS


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

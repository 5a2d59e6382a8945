"""What a model is sent, for people: every message on a line, every change in its place."""

from __future__ import annotations

from segue.cli.interactive.commands.view import around_changes, from_message, request_page, summary
from segue.conversation.blocks import Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, model, tool, user
from segue.transcript.repairs import Repair

CONVERSATION = Conversation(
    (
        user("Where is the port set?"),
        model(Reasoning("hm"), "In two places:\n\nserver.py\nsettings.py"),
        user("Run the tests", Media("image", "image/png", "aGk=")),
        model(Reasoning("hm"), ToolCall("c0", "run_shell", {"command": "make\ttest"}, native_id="toolu_1")),
        user("Go on"),
    )
)
REPAIRS = (
    Repair("reasoning_dropped", "mistral", "messages[1]", decision="the target takes no reasoning back"),
    Repair("reasoning_dropped", "mistral", "messages[3]", decision="the target takes no reasoning back"),
    Repair("call_closed", "mistral", "messages[3].blocks[1]", ("c0",), decision="no result was recorded"),
    Repair("bridged", "mistral", "messages[4]"),
    Repair("option_not_sent", "mistral", "options.effort", decision="this model has none"),
    Repair("ended", "mistral", "messages[5]"),
)


def _texts(repairs: tuple[Repair, ...] = REPAIRS, ids: dict[str, str] | None = None) -> list[str]:
    return [f"{line.mark}{line.text}" for line in request_page(CONVERSATION, repairs, ids or {})]


def test_every_change_stands_at_its_message_and_its_reason_once() -> None:
    assert _texts(ids={"c0": "c00000000"}) == [
        "  1 you    Where is the port set?",
        "  2 model  In two places: … 3 lines",
        "−reasoning not sent (the target takes no reasoning back)",
        "  3 you    Run the tests",
        "           (image, image/png)",
        "  4 model",
        "           → $ make test",
        "~call id toolu_1 is c00000000 here",
        "−reasoning not sent",
        "+call without a result: closed with a neutral note (no result was recorded)",
        "+the target wants a model's message between tool results and the user",
        "  5 you    Go on",
        "    (your next message)",
        "−options.effort: the target does not know this option (this model has none)",
    ]


def test_changes_are_counted_by_their_mark() -> None:
    page = request_page(CONVERSATION, REPAIRS, {"c0": "c00000000"})
    assert summary(page) == "− 3 not sent   ~ 1 rewritten   + 2 written by segue"
    assert summary(request_page(CONVERSATION, (), {"c0": "toolu_1"})) == ""


def test_changes_alone_keep_the_line_of_their_message() -> None:
    shown = [line.text for line in around_changes(request_page(CONVERSATION, REPAIRS, {}))]
    assert "  1 you    Where is the port set?" not in shown
    assert "           → $ make test" not in shown
    assert shown[0] == "  2 model  In two places: … 3 lines"
    assert "(your next message)" not in "".join(shown)


def test_earlier_messages_are_hidden_with_their_changes() -> None:
    page = from_message(request_page(CONVERSATION, REPAIRS, {}), 4)
    assert [line.message for line in page] == [4, 4, -1, -1]


def test_what_a_tool_returned_cannot_write_to_the_terminal() -> None:
    held = Conversation(
        (tool(ToolResult("c0", "t", output="\x1b[2Jgone"), ToolResult("c1", "t", output={"a": 1})),)
    )
    page = request_page(held, (), {})
    assert "\x1b" not in page[0].text
    assert page[1].text.endswith('{"a":1}')
    assert request_page(Conversation((model(Text("")),)), (), {})[0].text == "  1 model"

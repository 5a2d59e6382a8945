"""The keys of the chat at a real terminal: early ones, several lines, questions, interruptions, and the way out."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from scripts.terminal import Terminal

from cli.cli_runs import Cloud
from cli.interactive.test_interactive import CTRL_C, CTRL_D, CTRL_O, ENTER, ESC, READY, refusals
from cli.interactive.test_interactive import terminal as terminal  # noqa: PLC0414 - a fixture
from segue.emulators.model.model_reply import Call, Think

Start = Callable[..., Terminal]
DOWN, CTRL_J, CTRL_R, SHIFT_TAB = "\x1b[B", "\n", "\x12", "\x1b[Z"


def said(cloud: Cloud) -> str:
    """What the user said last."""
    return str(cloud.bodies()[-1]["messages"][-1]["content"])


def test_what_is_typed_before_the_prompt_is_there_is_taken(cloud: Cloud, terminal: Start) -> None:
    cloud.reply("An early answer.")
    segue = terminal("-m", "openai/gpt-4.1")
    segue.type("hello early" + ENTER + "half a li")
    segue.wait_for("An early answer")
    segue.wait_for(r"\n› half a li")
    assert said(cloud) == "hello early"


def test_several_lines_are_one_message_however_they_were_made(cloud: Cloud, terminal: Start) -> None:
    cloud.reply("One.")
    cloud.reply("Two.")
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.type("a" + CTRL_J + "b\\" + ENTER + "c" + ESC + ENTER + "d" + ENTER)
    segue.wait_for(r"One\.\n\n.*out")
    assert said(cloud) == "a\nb\nc\nd"
    segue.settle()
    segue.type("\x1b[200~pasted\nlines\x1b[201~")
    segue.settle()
    assert len(cloud.bodies()) == 1
    segue.type(ENTER)
    segue.wait_for(r"Two\.")
    assert said(cloud) == "pasted\nlines"


def test_what_was_typed_before_is_searched_and_a_turn_is_said_differently(
    cloud: Cloud, terminal: Start
) -> None:
    for number in range(3):
        cloud.reply(f"Answer {number}.")
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    for number, question in enumerate(("alpha question", "beta question")):
        segue.type(question + ENTER)
        segue.wait_for(rf"Answer {number}\.\n\n.*out")
    segue.settle()
    segue.type(CTRL_R)
    segue.settle()
    segue.type("alph")
    segue.settle()
    segue.type(ENTER)
    segue.settle()
    segue.type(ENTER)
    segue.wait_for(r"Answer 2\.\n\n.*out")
    assert said(cloud) == "alpha question"
    segue.settle()
    segue.type(ESC + ESC)
    segue.wait_for(r"The turn is removed[\s\S]*\n\n› alpha question")


def test_a_question_shows_the_change_that_would_be_made(cloud: Cloud, terminal: Start) -> None:
    file = cloud.home.project / "a.py"
    file.write_text("a = 0\nx = 1\n")
    cloud.reply(Call("edit_file", {"path": "a.py", "old": "x = 1", "new": "x = 2"}))
    cloud.reply(Call("write_file", {"path": "a.py", "content": "a = 0\nx = 3\n"}))
    cloud.reply("Done.")
    segue = terminal("-m", "openai/gpt-4.1", "-T", "all")
    segue.wait_for(READY)
    segue.type("edit it" + ENTER)
    segue.wait_for(
        r"\? Edit a\.py\?  \+1 −1 lines\n\n +1   a = 0\n +2 - x = 1\n +2 \+ x = 2\n\n.*a every call of edit_file"
    )
    segue.settle(0.6)
    segue.type("y")
    segue.wait_for(
        r"\? Edit a\.py\?  \+1 −1 lines\n\n +1   a = 0\n +2 - x = 2\n +2 \+ x = 3\n\n.*a every call of write_file"
    )
    segue.settle(0.6)
    segue.type("n")
    segue.wait_for(r"you refused it[\s\S]*Done\.")
    assert file.read_text() == "a = 0\nx = 2\n"


def test_ctrl_c_at_a_question_stops_the_turn(cloud: Cloud, terminal: Start) -> None:
    cloud.reply(Call("run_shell", {"command": "touch never"}))
    segue = terminal("-m", "openai/gpt-4.1", "-T", "run_shell")
    segue.wait_for(READY)
    segue.type("run it" + ENTER)
    segue.wait_for(r"y once")
    segue.type(CTRL_C)
    segue.wait_for(r"- \$ touch never · you refused it and stopped the turn")
    cloud.reply("Fine.")
    segue.type("go on" + ENTER)
    segue.wait_for(r"Fine\.\n\n  \d+ s · ")
    assert not refusals(cloud)


def test_a_pause_before_another_attempt_can_be_interrupted(cloud: Cloud, terminal: Start) -> None:
    cloud.fail(status=503, retry_after=30.0)
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.type("hi" + ENTER)
    segue.wait_for(r"! OpenAI is overloaded \(HTTP 503\) · trying again in (30|29) s · attempt 2 of 8")
    segue.type(ESC)
    segue.wait_for("interrupted; the conversation stays valid", 5)


def test_compacting_can_be_interrupted(cloud: Cloud, terminal: Start) -> None:
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    for number in range(4):
        cloud.reply(f"Answer {number}. " + "words " * 60)
        segue.type(f"Question {number}" + ENTER)
        segue.wait_for(rf"Answer {number}[\s\S]*\d+ s · [^\n]*\n+›")
    cloud.reply("A summary. " * 400, delay=0.05)
    segue.type("/compact summarise" + ENTER)
    segue.wait_for(r"compacting \d+s · esc: interrupt")
    segue.type(ESC)
    segue.wait_for("interrupted; the conversation is unchanged")


def test_a_command_run_here_is_interrupted_alone(cloud: Cloud, terminal: Start) -> None:
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    for number in range(2):
        segue.type(f"!echo begun-$(({number}+7)); sleep 30" + ENTER)
        segue.wait_for(rf"\nbegun-{number + 7}")
        segue.type(CTRL_C)
        segue.wait_for(rf"begun-{number + 7}[\s\S]*exit code 130")
        segue.settle()
    cloud.reply("Still here.")
    segue.type("hello" + ENTER)
    segue.wait_for("Still here")


def test_reasoning_is_shown_while_it_comes_and_folded_again(cloud: Cloud, terminal: Start) -> None:
    cloud.reply(Think("A first thought.\n" + "And many more. " * 30), "Answer.", delay=0.03)
    segue = terminal("-m", "anthropic/claude-sonnet-4-6", "--effort", "high")
    segue.wait_for(READY)
    segue.type("think" + ENTER)
    segue.wait_for(r"thinking \d+s · esc: interrupt")
    segue.type(CTRL_O)
    segue.wait_for(r"\n  A first thought\.\n")
    segue.wait_for(r"Answer\.\n\n  \d+ s · ")
    assert "thought for" not in segue.text()


def test_a_model_is_picked_with_the_arrow_keys_and_a_session_too(cloud: Cloud, terminal: Start) -> None:
    cloud.reply("One.")
    segue = terminal("-m", "anthropic/claude-sonnet-4-6")
    segue.wait_for(READY)
    segue.type("The first talk" + ENTER)
    segue.wait_for(r"One\.\n\n.*out")
    segue.type("/model" + ENTER)
    segue.wait_for(r"Switch to which model[\s\S]*› anthropic/claude-sonnet-4-6 .*now")
    segue.type("gpt-4.1")
    segue.wait_for(r"› gpt-4\.1\n\n  › openai/gpt-4\.1 .*nothing is lost[\s\S]* of \d+")
    segue.settle()
    segue.type(DOWN + "\x1b[A" + ENTER)
    segue.wait_for(r"⇄ openai/\S+ answers from now on")
    segue.settle()
    segue.type(CTRL_D)
    assert segue.exit_code() == 0

    again = terminal("-r")
    again.wait_for(r"Resume which session[\s\S]*› The first talk .*gpt-4\.1")
    again.settle()
    again.type(ENTER)
    shown = again.wait_for(r"session \w+ · openai/\S+ · 2 messages\n\n› The first talk\n\nOne\.\n")
    assert "Resume which" not in shown, "nothing of the list stays"

    none = terminal("-r")
    none.wait_for("Resume which session")
    none.settle()
    none.type(ESC)
    assert none.exit_code() == 130


def test_the_approval_mode_changes_with_a_key(terminal: Start) -> None:
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.settle()
    segue.type(SHIFT_TAB)
    segue.settle()
    segue.type("/approval" + ENTER)
    segue.wait_for("approval: auto-edit")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_ended_leaves_a_valid_session(cloud: Cloud, terminal: Start, number: signal.Signals) -> None:
    cloud.reply("Never ending. " * 400, delay=0.05)
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.type("go" + ENTER)
    segue.wait_for("Never ending")
    segue.send(number)
    assert segue.exit_code() == 143
    cloud.reply("Still valid.")
    assert cloud.home.run("-c", "and now?").out == "Still valid.\n"
    assert not refusals(cloud)


def test_a_window_of_a_few_lines_is_enough(cloud: Cloud, terminal: Start) -> None:
    cloud.reply("Words and more words. " * 20)
    segue = terminal("-m", "openai/gpt-4.1", rows=6)
    segue.wait_for(READY)
    segue.type("hi" + ENTER)
    shown = segue.wait_for(r"\d+ s · .*out")
    assert shown.count("Words and more words.") + shown.count("Words and more\nwords.") >= 18
    assert "too small" not in shown

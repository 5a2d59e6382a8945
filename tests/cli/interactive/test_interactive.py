"""A chat at a real terminal: typed keys in, what the screen shows out; emulated providers answer over HTTP."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from scripts.terminal import Terminal

from cli.cli_runs import Cloud
from segue.emulators.model.model_reply import Call, Think

CTRL_C, CTRL_D, CTRL_O, ESC, ENTER = "\x03", "\x04", "\x0f", "\x1b", "\r"
READY = r"ctrl-d exits\n\n›"
SLOW = """
import time
from segue.tools.function_tools import tool

@tool(effect="read")
def slow(seconds: float, name: str) -> str:
    "Take a while."
    time.sleep(seconds)
    return f"{name} is done"
"""


@pytest.fixture
def terminal(cloud: Cloud) -> Iterator[Callable[..., Terminal]]:
    """segue in a terminal, in a home of its own."""
    (cloud.home.project / "slow.py").write_text(SLOW)
    environment = cloud.home.full()
    environment.pop("NO_COLOR")
    with ExitStack() as stack:

        def start(*words: str, rows: int = 40) -> Terminal:
            command = (sys.executable, "-m", "segue", *words)
            running = Terminal(command, environment=environment, directory=cloud.home.project, rows=rows)
            return stack.enter_context(running)

        yield start


def refusals(cloud: Cloud) -> list[str]:
    return [f"{entry.rule}: {entry.message}" for entry in cloud.emulator.log if entry.verdict == "refused"]


def test_a_whole_chat_with_a_switch_a_view_an_undo_and_a_way_back(
    cloud: Cloud, terminal: Callable[..., Terminal]
) -> None:
    cloud.reply("The **first** answer.")
    segue = terminal("-m", "anthropic/claude-sonnet-4-6")
    segue.wait_for(READY)
    segue.type("Hello there" + ENTER)
    segue.wait_for(r"The first answer\.\n\n  \d+ s · ")
    segue.type("/model openai/gpt-4.1" + ENTER)
    segue.wait_for(
        r"⇄ openai/gpt-4\.1 answers from now on \(was anthropic/claude-sonnet-4-6\)\n  2 messages carried over · nothing is lost"
    )
    cloud.reply("The second answer.")
    segue.type("And again" + ENTER)
    segue.wait_for(r"The second answer\.\n\n  \d+ s · ")
    segue.type("/view gemini" + ENTER)
    segue.wait_for(
        r"What gemini is sent · 4 messages(.|\n)*  4 model  The second answer\.(.|\n)*\(your next message\)"
    )
    segue.type("/undo" + ENTER)
    segue.wait_for("The turn is removed")
    segue.type("/stats" + ENTER)
    shown = segue.wait_for("tokens out")
    assert re.search(r"messages +2", shown)
    segue.type("/redo" + ENTER + "/stats" + ENTER)
    segue.wait_for(r"messages +4")
    segue.type("/quit" + ENTER)
    shown = segue.wait_for(r"Resume with: segue -r (\w+)")
    assert segue.exit_code() == 0
    session = re.findall(r"Resume with: segue -r (\w+)", shown)[-1]

    cloud.reply("Still here.")
    again = terminal("-r", session)
    again.wait_for(r"› And again\n\nThe second answer\.\n\n›")
    again.type("Do you remember?" + ENTER)
    again.wait_for(r"Still here\.\n\n  \d+ s · ")
    asked = [message["content"] for message in cloud.bodies()[-1]["messages"] if message["role"] == "user"]
    assert asked == ["Hello there", "And again", "Do you remember?"]
    assert not refusals(cloud)


def test_ctrl_c_in_the_middle_of_parallel_tools_leaves_a_valid_session(
    cloud: Cloud, terminal: Callable[..., Terminal]
) -> None:
    wishes = [Call("slow", {"seconds": seconds, "name": f"n{seconds}"}) for seconds in (0.1, 30.0, 31.0)]
    cloud.reply(*wishes)
    segue = terminal("-m", "anthropic/claude-sonnet-4-6", "-T", "slow.py:slow")
    segue.wait_for(READY)
    segue.type("Do three things" + ENTER)
    segue.wait_for("✓ slow")
    segue.type(CTRL_C)
    shown = segue.wait_for(r"(- slow.* · stopped by you[^\n]*\n[^-]*){2}")
    assert "✓ slow seconds: 0.1, name: n0.1" in shown
    assert "interrupted" not in shown, "one line for one interruption"
    cloud.reply("Two were stopped.")
    segue.type("/model openai/gpt-5.6" + ENTER)
    segue.wait_for("⇄")
    segue.type("What happened?" + ENTER)
    segue.wait_for("Two were stopped")
    assert not refusals(cloud)
    results = [item for item in cloud.bodies()[-1]["input"] if item.get("type") == "function_call_output"]
    assert len(results) == 3
    assert "n0.1 is done" in str(results[0])


def test_a_switch_during_a_turn_says_that_it_waits(cloud: Cloud, terminal: Callable[..., Terminal]) -> None:
    cloud.reply("A long story. " * 40, delay=0.05)
    segue = terminal("-m", "anthropic/claude-sonnet-4-6")
    segue.wait_for(READY)
    segue.type("Tell me" + ENTER)
    segue.wait_for("A long story")
    segue.type("/model openai/gpt-4.1" + ENTER)
    segue.wait_for("from the next turn on")
    segue.wait_for(r"⇄ openai/gpt-4\.1 answers from now on", 30)
    cloud.reply("Another voice.")
    segue.type("Go on" + ENTER)
    segue.wait_for(r"Another voice\.\n\n  \d+ s · ")
    providers = [entry.provider for entry in cloud.emulator.log]
    assert providers == ["anthropic", "openai"]
    assert not refusals(cloud)


def test_what_is_typed_during_a_turn_waits_for_its_end(
    cloud: Cloud, terminal: Callable[..., Terminal]
) -> None:
    cloud.reply("First. " * 20, delay=0.05)
    cloud.reply("The queued one.")
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.type("one" + ENTER)
    segue.wait_for("First")
    segue.type("two" + ENTER)
    segue.wait_for("queued until this turn ends: two")
    segue.wait_for("The queued one", 30)
    assert [message["content"] for message in cloud.bodies()[-1]["messages"]][-1] == "two"


def test_escape_interrupts(cloud: Cloud, terminal: Callable[..., Terminal]) -> None:
    cloud.reply("Never ending. " * 400, delay=0.05)
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.type("go" + ENTER)
    segue.wait_for("Never ending")
    segue.type(ESC)
    segue.wait_for("interrupted; the conversation stays valid")
    cloud.reply("Fine.")
    segue.type("and now?" + ENTER)
    segue.wait_for(r"Fine\.\n\n  \d+ s · ")


def test_a_call_is_asked_about_and_the_answer_holds(cloud: Cloud, terminal: Callable[..., Terminal]) -> None:
    for command in ("echo one-$((1+1))", "echo two-$((2+2))"):
        cloud.reply(Call("run_shell", {"command": command}))
        cloud.reply("Ran.")
    segue = terminal("-m", "openai/gpt-4.1", "-T", "run_shell")
    segue.wait_for(READY)
    segue.type("run it" + ENTER)
    segue.wait_for(r"\? Run this command\?\n\n +echo one[\s\S]*y once")
    segue.settle(0.6)
    segue.type("y")
    segue.wait_for(r"y once · enter confirms")
    segue.type(ENTER)
    segue.wait_for(r"✓ \$ echo one.* · you allowed it.*\n    one-2")
    segue.wait_for(r"Ran\.\n\n  \d+ s · ")
    segue.type("and the other" + ENTER)
    segue.wait_for(r"\? Run this command\?\n\n +echo two[\s\S]*y once")
    segue.settle(0.6)
    segue.type("n")
    shown = segue.wait_for(r"- \$ echo two.* · you refused it")
    assert "two-4" not in shown


def test_reasoning_is_folded_away_and_shown_on_request(
    cloud: Cloud, terminal: Callable[..., Terminal]
) -> None:
    cloud.reply(Think("Let me see what four is."), "Four.")
    segue = terminal("-m", "anthropic/claude-opus-5-5")
    segue.wait_for(READY)
    segue.type("2+2" + ENTER)
    segue.wait_for(r"Four\.\n\n  \d+ s · ")
    segue.settle()
    segue.type(CTRL_O)
    segue.wait_for("Let me see what four is|The last turn has no reasoning")
    segue.type("q")


def test_model_output_cannot_steer_the_terminal(cloud: Cloud, terminal: Callable[..., Terminal]) -> None:
    cloud.reply("before \x1b]0;owned\x07\x1b[2J\x1b[31mafter\u202e")
    segue = terminal("-m", "openai/gpt-4.1", "--plain")
    segue.wait_for(READY)
    segue.type("hi" + ENTER)
    segue.wait_for("before after")
    assert b"owned" not in segue.raw
    assert b"\x1b[2J" not in segue.raw


def test_compacting_forking_and_saving(cloud: Cloud, terminal: Callable[..., Terminal]) -> None:
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    for number in range(4):
        cloud.reply(f"Answer {number}. " + "words " * 60)
        segue.type(f"Question {number}" + ENTER)
        segue.wait_for(rf"Answer {number}[\s\S]*\d+ s · [^\n]*\n+›")
    segue.type("/compact truncate" + ENTER)
    segue.wait_for(r"⇊ compacted \(truncate|already as short as possible")
    segue.type("/save My talk" + ENTER)
    segue.wait_for("Saved as My talk")
    segue.type("/fork" + ENTER)
    segue.wait_for("is saved unchanged; you are now in its copy")
    segue.type("/sessions" + ENTER)
    segue.wait_for(r"My talk[\s\S]*›")
    cloud.reply("Good.")
    segue.type("go on" + ENTER)
    segue.wait_for(r"Good\.")
    assert not refusals(cloud)


def test_mistakes_are_explained_and_the_chat_goes_on(cloud: Cloud, terminal: Callable[..., Terminal]) -> None:
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.type("/modle x" + ENTER)
    segue.wait_for("Did you mean /model")
    segue.type("/model nobody/nothing" + ENTER)
    segue.wait_for('There is no provider "nobody"')
    segue.type("/set temprature 1" + ENTER)
    segue.wait_for('There is no setting "temprature"')
    cloud.fail(status=401)
    segue.type("hello" + ENTER)
    segue.wait_for(r"✗ .*(key|API)")
    cloud.reply("Now it works.")
    segue.type("hello again" + ENTER)
    segue.wait_for("Now it works")


def test_ctrl_c_twice_and_ctrl_d_leave(terminal: Callable[..., Terminal]) -> None:
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.type("half a line")
    segue.settle()
    segue.type(CTRL_C)
    segue.settle()
    segue.type(CTRL_C)
    segue.wait_for("press ctrl-c again to leave")
    segue.type(CTRL_C)
    assert segue.exit_code() == 0

    other = terminal("-m", "openai/gpt-4.1")
    other.wait_for(READY)
    other.type(CTRL_D)
    assert other.exit_code() == 0


def test_a_file_is_sent_along_and_a_command_is_run_here(
    cloud: Cloud, terminal: Callable[..., Terminal]
) -> None:
    (cloud.home.project / "notes.txt").write_text("the secret word is segue")
    segue = terminal("-m", "openai/gpt-4.1")
    segue.wait_for(READY)
    segue.type("!echo from-the-shell-$((40+2))" + ENTER)
    segue.wait_for(r"from-the-shell-42\n+›")
    cloud.reply("I read it.")
    segue.type("What is in @notes.txt?" + ENTER)
    segue.wait_for("I read it")
    told = str(cloud.bodies()[-1]["messages"])
    assert "the secret word is segue" in told
    assert "from-the-shell-42" in told

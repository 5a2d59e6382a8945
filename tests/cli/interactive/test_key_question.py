"""Which keys answer a question, and when; typed into a pipe instead of a terminal."""

from __future__ import annotations

import asyncio
import selectors
from io import StringIO
from pathlib import Path

import pytest
from msgspec import Struct
from prompt_toolkit.input import create_pipe_input

from segue.cli.display.terminal import Colours
from segue.cli.interactive.key_watch import CANCELLED, Choice, KeyWatch
from segue.cli.interactive.prompts.questions import question_about
from segue.conversation.blocks import ToolCall
from segue.conversation.tools import ToolSpec
from segue.tools.definition import Effect, Tool

CHOICES = (Choice("y", "once"), Choice("a", "always", enter=True), Choice("n", "no"))


class Asked(Struct):
    """What came of the keys."""

    answer: str
    lines: list[str]
    draft: str
    interrupts: int


class _InstantSelector(selectors.DefaultSelector):
    """Nobody waits: where nothing is ready, the clock moves on instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class InstantLoop(asyncio.SelectorEventLoop):
    """An event loop whose seconds take no time."""

    def __init__(self) -> None:
        self._instant = _InstantSelector()
        super().__init__(self._instant)

    def time(self) -> float:
        return self._instant.now


def ask(*keys: str | float, before: str = "") -> Asked:
    """Press keys at a question: texts are typed at once, numbers are pauses. "open" if nothing has answered it."""

    async def play() -> Asked:
        lines: list[str] = []
        interrupts: list[bool] = []
        with create_pipe_input() as source:
            watch = KeyWatch(
                source,
                on_interrupt=interrupts.append,
                on_line=lines.append,
                on_typed=lambda _typed: None,
                on_reveal=lambda: None,
            )
            with watch.watching():
                source.send_text(before)
                asking = asyncio.ensure_future(watch.ask(CHOICES, lambda: None))
                await asyncio.sleep(0)
                for key in keys:
                    if isinstance(key, str):
                        source.send_text(key)
                        await asyncio.sleep(0.1)
                    else:
                        await asyncio.sleep(key)
                await asyncio.wait({asking}, timeout=1.2)
                answer = asking.result() if asking.done() else "open"
                asking.cancel()
                return Asked(answer, lines, watch.left_over, len(interrupts))

    with asyncio.Runner(loop_factory=InstantLoop) as runner:
        return runner.run(play())


def test_a_key_after_the_question_was_read_answers() -> None:
    assert ask(2.0, "y").answer == "y"
    assert ask(2.0, "N").answer == "n"


def test_always_needs_enter() -> None:
    assert ask(2.0, "a", 1.0).answer == "open"
    assert ask(2.0, "a", 1.0, "\r").answer == "a"
    assert ask(2.0, "a", "\x7f", "\r").answer == "open"


@pytest.mark.parametrize("typed", ["y", "a\r", "yes maybe\r", "y\r", "a\ra\r", "n", "\x1b[200~y\x1b[201~"])
def test_what_was_typed_before_is_text(typed: str) -> None:
    asked = ask(1.5, before=typed)
    assert asked.answer == "open"
    assert asked.lines or asked.draft


@pytest.mark.parametrize("typed", ["y", "a", "n"])
def test_a_key_at_the_moment_of_painting_is_text(typed: str) -> None:
    asked = ask(typed)
    assert (asked.answer, asked.draft) == ("open", typed)


def test_nothing_counts_while_the_line_holds_text_or_somebody_types() -> None:
    assert ask(2.0, "d", 2.0, "y", 2.0, "a", 2.0).answer == "open"
    asked = ask(2.0, *"do it anyway", "\r", "y")
    assert (asked.answer, asked.lines, asked.draft) == ("open", ["do it anyway"], "y")
    assert ask(2.0, "d", "\x15", 2.0, "y").answer == "y"


def test_a_word_that_begins_with_an_answer_is_a_word() -> None:
    for word in ("yes maybe", "always", "no, the other"):
        asked = ask(2.0, *word, "\r")
        assert (asked.answer, asked.lines) == ("open", [word])


def test_a_burst_and_a_paste_are_text() -> None:
    assert ask(2.0, "yes maybe\r").lines == ["yes maybe"]
    assert ask(2.0, "y\r").answer == "open"
    assert ask(2.0, "\x1b[200~y\x1b[201~").draft == "y"


@pytest.mark.parametrize("key", ["\x1b", "\x03"])
def test_escape_and_ctrl_c_cancel_at_any_time(key: str) -> None:
    assert ask(key).answer == CANCELLED
    assert ask(2.0, "half a line", key, 1.5).answer == CANCELLED


def question(effect: Effect, name: str = "x", **arguments: object) -> list[str]:
    """Title and body."""
    tool = Tool(spec=ToolSpec(name, "", {}), run=lambda _a, _c: asyncio.sleep(0), effect=effect)
    asked = question_about(ToolCall("c1", name, arguments), tool, Path.cwd())
    return [asked.title, *(line.strip() for line in asked.lines(40, Colours(StringIO())))]


def test_what_cannot_be_seen_is_spelt_out() -> None:
    assert question("run", command="echo ok\u202e; rm\u200b x \x1b[8mh\u200d\r\U000e0041") == [
        "Run this command?",
        r"echo ok\u202e; rm\u200b x",
        r"\x1b[8mh\u200d\x0d\U000e0041",
    ]
    assert question("other", "mcp__a\x1b]0;b\x07", text="👩‍👩‍👧 é")[0] == r"Call mcp__a\x1b]0;b\x07?"


def test_a_change_has_the_name_the_size_and_the_numbers_of_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 31)))
    assert question("edit", path="a.txt", old="10\n", new="ten\nTEN\n") == [
        "Edit a.txt?  +2 −1 lines",
        *("7   7", "8   8", "9   9", "10 - 10", "10 + ten", "11 + TEN", "12   11", "13   12", "14   13"),
    ]
    both = question("edit", path="a.txt", old="1", new="one", every=True)
    assert "…" in both
    assert both[0] == "Edit a.txt?  +12 −12 lines"
    assert question("edit", path="b/new.txt", content="x\ny")[:3] == [
        "Write the new file b/new.txt?  +2 −0 lines",
        "1 + x",
        "2 + y",
    ]
    assert question("edit", path="a.txt", old="nowhere", new="here")[1:] == ["- nowhere", "+ here"]


def test_a_long_line_is_shown_whole() -> None:
    shown = question("run", command="echo " + "x" * 500 + " end")
    assert "".join(shown).count("x") == 500
    assert shown[-1].endswith("end")

"""Room on a terminal: wide letters, colours, and windows that change their size."""

from __future__ import annotations

import io

import pyte
from hypothesis import given
from hypothesis import strategies as st

from segue.cli.display.text_width import LiveLines, cut, cut_beginning, width_of, wrapped
from segue.cli.interactive.views.screen import Screen

LINES = st.text(alphabet="ab 你界🎉é", max_size=60)


@given(line=LINES, most=st.integers(1, 40))
def test_what_is_cut_fits_and_what_fits_is_not_cut(line: str, most: int) -> None:
    assert width_of(cut(line, most)) <= most
    assert width_of(cut_beginning(line, most)) <= most
    if width_of(line) <= most:
        assert cut(line, most) == line


@given(text=LINES, width=st.integers(12, 40), indent=st.integers(0, 2))
def test_what_is_wrapped_fits_and_no_letter_is_lost(text: str, width: int, indent: int) -> None:
    lines = wrapped(text, width, indent)
    assert all(width_of(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_colours_take_no_room() -> None:
    assert width_of("\x1b[31m你好\x1b[0m!") == 5


def test_lines_that_a_narrower_window_has_broken_are_erased_whole() -> None:
    bottom = LiveLines()
    bottom.remember(["x" * 50, "", "你" * 25])
    assert bottom.erase(60).count("\x1b[A\x1b[K") == 3
    bottom.remember(["x" * 50, "", "你" * 25])
    assert bottom.erase(20).count("\x1b[A\x1b[K") == 7
    assert bottom.erase(20) == ""


def test_live_lines_stand_below_an_answer_and_leave_nothing_behind() -> None:
    written = io.StringIO()
    screen = Screen(written)
    screen.live(["working 1s"])
    for word in ("An ", "answer ", "in **words**.\n\nAnd ", "more."):
        screen.text(word)
        screen.live([f"working {len(word)}s"])
    shown = pyte.Screen(80, 24)
    stream = pyte.Stream(shown)
    stream.feed(written.getvalue().replace("\n", "\r\n"))
    assert [line.rstrip() for line in shown.display if line.strip()][-1].startswith("working")
    screen.end_text()
    screen.line("over")
    last = pyte.Screen(80, 24)
    pyte.Stream(last).feed(written.getvalue().replace("\n", "\r\n"))
    lines = [line.rstrip() for line in last.display if line.strip()]
    assert lines == ["An answer in words.", "And more.", "over"]


def test_a_plain_screen_ends_the_line_of_an_answer_before_it_says_more() -> None:
    written = io.StringIO()
    screen = Screen(written, plain=True)
    screen.live(["never shown"])
    screen.text("An answer")
    screen.line("model · 3 out")
    assert written.getvalue() == "An answer\nmodel · 3 out\n"

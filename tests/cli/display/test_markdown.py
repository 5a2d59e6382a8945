"""Markdown while it arrives: what is finished stays, what is cut anywhere looks the same, and it costs no more than it must."""

from __future__ import annotations

import itertools
import re

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.cli.display.markdown import GROWTH, MarkdownBlockReader, MarkdownStream

PAGE = """# Title

Some **bold** text with `code` in it.

- one
- two
  - nested

  more of two
- three

1. first
2. second

```python
def f(x):
    return x + 1

print(f(2))
```
| a | b |
|---|---|
| 1 | 2 |

> quoted

The end"""


class Screen:
    """A terminal that remembers what was written to it."""

    def __init__(self, width: int = 60, height: int = 24) -> None:
        self.written: list[str] = []
        self._screen = pyte.HistoryScreen(width, height, history=10_000)
        self._stream = pyte.Stream(self._screen)

    def write(self, text: str) -> None:
        self.written.append(text)
        self._stream.feed(text.replace("\n", "\r\n"))

    def lines(self) -> list[str]:
        width = range(self._screen.columns)
        above = ["".join(line[at].data for at in width).rstrip() for line in self._screen.history.top]
        return [*above, *(line.rstrip() for line in self._screen.display)]

    def text(self) -> str:
        return "\n".join(self.lines()).strip("\n")


def stream_to(screen: Screen, *, height: int = 24) -> MarkdownStream:
    ticks = itertools.count()
    return MarkdownStream(screen.write, size=lambda: (60, height), clock=lambda: float(next(ticks)))


def shown(text: str, portions: list[str], height: int = 24) -> str:
    screen = Screen(height=height)
    stream = stream_to(screen, height=height)
    for portion in portions:
        stream.feed(portion)
    stream.finish()
    return screen.text()


def test_a_page_is_shown_as_a_page() -> None:
    told = shown(PAGE, [PAGE])
    assert told.startswith("Title\n\nSome bold text with code in it.\n\n • one\n • two\n")
    assert "    • nested" in told
    assert "  def f(x):\n      return x + 1\n\n  print(f(2))\n" in told
    assert "```" not in told
    assert " a  b" in told
    assert told.endswith("The end")


@settings(max_examples=40)
@given(cuts=st.lists(st.integers(0, len(PAGE)), max_size=60), height=st.integers(2, 30))
def test_however_it_is_cut_the_page_looks_the_same_in_the_end(cuts: list[int], height: int) -> None:
    places = [0, *sorted(cuts), len(PAGE)]
    portions = [PAGE[start:end] for start, end in itertools.pairwise(places)]
    assert shown(PAGE, portions, height) == shown(PAGE, [PAGE], height)


@given(text=st.text(alphabet="#-*`~|>123. \nab", max_size=200))
def test_no_word_is_lost_whatever_the_text(text: str) -> None:
    reader = MarkdownBlockReader()
    blocks = [block for letter in text for block in reader.feed(letter)]
    blocks += reader.finish()
    words = re.findall(r"[ab]+", text)
    kept = re.findall(r"[ab]+", " ".join(f"{block.language} {block.text}" for block in blocks))
    fences = sum(line.lstrip().startswith(("```", "~~~")) for line in text.split("\n"))
    assert kept == words or fences  # words behind the fence are no part of the program


def test_a_finished_block_is_printed_once_and_never_erased() -> None:
    screen = Screen()
    stream = stream_to(screen)
    stream.feed("First paragraph.\n\n")
    before = len(screen.written)
    for letter in "Second paragraph, which takes its time to arrive.\n\nThird.":
        stream.feed(letter)
    stream.finish()
    assert "First" not in "".join(screen.written[before:])


@pytest.mark.parametrize("kind", ["paragraph", "code", "list", "line"])
def test_the_cost_is_linear_in_the_length(kind: str) -> None:
    def cost(size: int) -> int:
        unit = {
            "paragraph": "some words of a paragraph\n",
            "code": "    x = compute(x)\n",
            "list": "- an item of a list\n",
            "line": "words without any end ",
        }[kind]
        text = ("```python\n" if kind == "code" else "") + unit * size
        screen = Screen()
        stream = stream_to(screen)
        for start in range(0, len(text), 5):
            stream.feed(text[start : start + 5])
        stream.finish()
        return sum(map(len, screen.written))

    small, large = cost(40), cost(160)
    assert large <= 5 * small + 4 * 24 * 60 / GROWTH


def test_a_tail_higher_than_the_screen_shows_its_end_and_is_whole_afterwards() -> None:
    text = "\n".join(f"| {n} | row |" for n in range(30))
    told = shown(text, ["| n | what |\n|---|---|\n", *text], height=8)
    assert sum("row" in line for line in told.splitlines()) == 30


def test_a_link_shows_where_it_leads() -> None:
    told = shown("", ["[bank](http://evil.example)"])
    assert "http://evil.example" in told
    screen = Screen()
    stream = stream_to(screen)
    stream.feed("[bank](http://evil.example)\n\n")
    assert "\x1b]8" not in "".join(screen.written)

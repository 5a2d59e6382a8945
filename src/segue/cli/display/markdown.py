"""Markdown while it arrives: a finished block is printed once; only the unfinished tail is repainted.

The tail is repainted when it has grown by a part of its own size, so painting a block costs a fixed multiple of its
length, and the whole is linear, however small the portions are.
"""

from __future__ import annotations

import re
import time
from io import StringIO
from typing import TYPE_CHECKING, ClassVar, final

from rich.console import Console, Group
from rich.markdown import ListItem, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.theme import Theme

from segue.cli.display.markdown_blocks import MarkdownBlock, MarkdownBlockReader
from segue.cli.display.text_width import LiveLines

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import ConsoleOptions, RenderableType, RenderResult

GROWTH = 1 / 16
"""The tail is repainted when it has grown by this part of itself."""
PAUSE = 0.04
"""Seconds between two repaints of the tail: more often is not visible."""
MOST_COLUMNS = 100
"""Longer lines are hard to read."""
_THEME = "ansi_dark"
"""Colours of the terminal's own palette, readable on any background."""
_STYLES = Theme(
    {
        "markdown.code": "cyan",
        **{f"markdown.h{level}": "bold" for level in range(1, 7)},
        "markdown.block_quote": "italic",
        "markdown.item.bullet": "none",
        "markdown.item.number": "none",
        "markdown.list": "none",
        "markdown.link": "none",
        "markdown.link_url": "dim",
        "markdown.hr": "dim",
        "markdown.table.header": "bold",
        "markdown.table.border": "dim",
    }
)
"""One accent, no backgrounds: the same on light and dark terminals."""
_BLANK_ENDS = re.compile(r"\A(?:(?:\x1b\[[\d;]*m|[ ])*\n)+|(?:\n(?:\x1b\[[\d;]*m|[ ])*)+\Z")
"""Empty lines at both ends."""


@final
class _Item(ListItem):
    """An item of a list; a number keeps its dot."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        numeral = f"{number}. ".rjust(len(str(last_number)) + 2)
        lines = console.render_lines(self.elements, options.update(width=options.max_width - len(numeral)))
        for place, line in enumerate(lines):
            yield Segment(numeral if place == 0 else " " * len(numeral))
            yield from line
            yield Segment.line()


@final
class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "list_item_open": _Item}


@final
class MarkdownStream:
    """Writes Markdown to a terminal as it arrives. `finish` prints the rest and resets."""

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        size: Callable[[], tuple[int, int]],
        style: bool = True,
        colour: bool = True,
        after_block: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`size` returns the columns and rows: a window may change while an answer arrives. `after_block`: called where
        other lines may be printed."""
        self._after_block = after_block
        self._write = write
        self._size = size
        self._clock = clock
        self._reader = MarkdownBlockReader()
        self._console = Console(
            file=StringIO(),
            width=MOST_COLUMNS,
            force_terminal=True,
            color_system="standard" if style else None,
            no_color=not colour,
            theme=_STYLES,
            legacy_windows=False,
            highlight=False,
        )
        self._tail = LiveLines()
        self._painted_length = 0
        self._painted_at = 0.0
        self._last: MarkdownBlock | None = None

    def feed(self, text: str) -> None:
        """More of the text, without terminal escapes: see `segue.text.terminal_text`."""
        finished = self._reader.feed(text)
        if finished:
            self._erase()
            self._write("".join(self._printed(block) for block in finished))
            if not self._reader.in_code:
                self._after_block()
        self._paint_tail()

    @property
    def between_blocks(self) -> bool:
        """Whether everything that arrived is printed, and nothing can change it any more."""
        return not self._tail and self._reader.is_between_blocks

    def finish(self) -> None:
        finished = self._reader.finish()
        self._erase()
        if finished:
            self._write("".join(self._printed(block) for block in finished))
        self._last = None

    def _paint_tail(self) -> None:
        size, now = self._reader.tail_size, self._clock()
        if size < self._painted_length * (1 + GROWTH) or (self._tail and now - self._painted_at < PAUSE):
            return
        tail = self._reader.tail()
        if tail is None:
            return
        # Lines that leave the screen cannot be erased.
        most = max(self._size()[1] - 1, 1)
        lines = self._printed(tail, remember=False).splitlines(keepends=True)[-most:]
        self._erase()
        self._write("".join(lines))
        self._tail.remember(lines)
        self._painted_length, self._painted_at = size, now

    def _erase(self) -> None:
        self._painted_length = 0
        if erased := self._tail.erase(self._size()[0]):
            self._write(erased)

    def _printed(self, block: MarkdownBlock, *, remember: bool = True) -> str:
        spaced = self._last is not None and not block.joins(self._last)
        if remember:
            self._last = block
        file = StringIO()
        self._console.file = file
        self._console.width = min(self._size()[0], MOST_COLUMNS)
        self._console.print(_renderable(block))
        # Lines are padded with spaces, which would be copied with them.
        lines = [line.rstrip(" ") for line in file.getvalue().split("\n")]
        return ("\n" if spaced else "") + _BLANK_ENDS.sub("", "\n".join(lines)) + "\n"


def _renderable(block: MarkdownBlock) -> RenderableType:
    if block.kind == "heading":
        level, _, words = block.text.partition(" ")
        return _Page(
            words.rstrip(" #"), style="bold underline" if len(level) == 1 else "bold", hyperlinks=False
        )
    if block.kind != "code":
        # Addresses are written out: a link must not hide its target.
        return _Page(block.text, code_theme=_THEME, hyperlinks=False)
    if not block.code:
        return Group()
    code = Syntax(
        block.code, block.language or "text", theme=_THEME, word_wrap=True, background_color="default"
    )
    return Padding(code, (0, 0, 0, 2))

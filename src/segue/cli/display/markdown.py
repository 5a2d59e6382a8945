"""Markdown while it arrives: a finished block is printed once; only the unfinished tail is repainted.

`MarkdownBlockReader` finds where a block ends. The tail is repainted when it has grown by a part of its own size, so painting a
block costs a fixed multiple of its length, and the whole is linear, however small the portions are.
"""

from __future__ import annotations

import re
import time
from io import StringIO
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias, final

from msgspec import Struct
from rich.console import Console, Group
from rich.markdown import ListItem, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.theme import Theme

from segue.cli.display.text_width import LiveLines

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import ConsoleOptions, RenderableType, RenderResult


Kind: TypeAlias = Literal["text", "item", "heading", "code"]

CODE_PORTION: Final = 40
"""Lines of code after which a long program is printed in portions: its beginning can be read before its end arrives."""

_FENCE: Final = re.compile(r"^(?P<indent> {0,3})(?P<marks>`{3,}|~{3,})\s*(?P<language>[\w+#.-]*)[^`]*$")
_INNER_FENCE: Final = re.compile(r"^\s+(?P<marks>`{3,}|~{3,})")
_ITEM: Final = re.compile(r"^ {0,1}(?:[-*+]|\d{1,9}[.)])\s")
_HEADING: Final = re.compile(r"^#{1,6}(\s|$)")


@final
class MarkdownBlock(Struct, frozen=True):
    """A piece that can be rendered on its own. Of code, `text` is the program itself."""

    kind: Kind
    text: str
    language: str = ""
    continues: bool = False
    """Belongs directly under the block before: the next item of a list, or more of a program."""

    @property
    def code(self) -> str:
        return self.text.rstrip("\n") if self.kind == "code" else ""

    def joins(self, before: MarkdownBlock) -> bool:
        return self.continues and before.kind == self.kind


@final
class MarkdownBlockReader:
    """Takes text in any portions and returns finished blocks. Each line is read once."""

    def __init__(self) -> None:
        self._rest: list[str] = []
        """Portions of the line that has not ended."""
        self._lines: list[str] = []
        self._kind: Kind = "text"
        self._fence = ""
        """The fence that closes the code block."""
        self._language = ""
        self._continues = False
        self._gap = False
        """A blank line was seen inside a list: the next line decides whether the list continues."""
        self.tail_size = 0
        """Letters of the block that is not finished."""

    def feed(self, text: str) -> list[MarkdownBlock]:
        finished: list[MarkdownBlock] = []
        first, *others = text.split("\n")
        self._rest.append(first)
        self.tail_size += len(first)
        for line in others:
            self._end_line(finished)
            self._rest.append(line)
            self.tail_size += len(line)
        return finished

    def finish(self) -> list[MarkdownBlock]:
        """What is left; the next text starts afresh."""
        finished: list[MarkdownBlock] = []
        self._end_line(finished)
        self._close(finished)
        return finished

    @property
    def in_code(self) -> bool:
        return self._kind == "code"

    @property
    def is_between_blocks(self) -> bool:
        return self.tail() is None and not self.in_code and not self._lines

    def tail(self) -> MarkdownBlock | None:
        """What has arrived of the block that is not finished."""
        rest = "".join(self._rest)
        if self._lines or self._kind == "code":
            return MarkdownBlock(self._kind, "\n".join([*self._lines, rest]), self._language, self._continues)
        return MarkdownBlock("heading" if _HEADING.match(rest) else "text", rest) if rest.strip() else None

    def _end_line(self, finished: list[MarkdownBlock]) -> None:
        line = "".join(self._rest)
        self._rest = []
        self._take(line, finished)
        self.tail_size = sum(map(len, self._lines)) if finished else self.tail_size

    def _take(self, line: str, finished: list[MarkdownBlock]) -> None:
        if self._kind == "code":
            self._take_code(line, finished)
        elif self._fence:
            self._take_inner_code(line)
        elif not line.strip():
            self._take_blank(finished)
        elif fence := _FENCE.match(line) if not (self._kind == "item" and line.startswith(" ")) else None:
            self._close(finished)
            self._kind, self._fence, self._language = "code", fence["marks"], fence["language"]
        elif _HEADING.match(line):
            self._close(finished)
            self._begin("heading", line)
            self._close(finished)
        elif _ITEM.match(line):
            follows = self._kind == "item" and bool(self._lines)
            tight = follows and not self._gap
            self._close(finished)
            self._begin("item", line)
            self._continues = tight
        else:
            self._take_text(line, finished)

    def _take_text(self, line: str, finished: list[MarkdownBlock]) -> None:
        if self._gap and not line.startswith(" "):
            self._close(finished)  # the list is over
        if self._kind == "item" and (inner := _INNER_FENCE.match(line)):
            self._fence = inner["marks"]
        if self._gap:
            self._lines.append("")
            self._gap = False
        self._lines.append(line)

    def _take_blank(self, finished: list[MarkdownBlock]) -> None:
        if self._kind == "item" and self._lines:
            self._gap = True
        else:
            self._close(finished)

    def _take_code(self, line: str, finished: list[MarkdownBlock]) -> None:
        if self._closes(line):
            self._close(finished)
            return
        self._lines.append(line)
        if len(self._lines) >= CODE_PORTION:
            finished.append(MarkdownBlock("code", "\n".join(self._lines), self._language, self._continues))
            self._lines, self._continues = [], True

    def _take_inner_code(self, line: str) -> None:
        self._lines.append(line)
        if self._closes(line):
            self._fence = ""

    def _closes(self, line: str) -> bool:
        marks = line.strip()
        return len(marks) >= len(self._fence) and not marks.strip(self._fence[0]) and bool(marks)

    def _begin(self, kind: Kind, line: str) -> None:
        self._kind = kind
        self._lines = [line]

    def _close(self, finished: list[MarkdownBlock]) -> None:
        if self._lines:
            finished.append(
                MarkdownBlock(self._kind, "\n".join(self._lines), self._language, self._continues)
            )
        self._lines, self._kind, self._fence, self._language = [], "text", "", ""
        self._continues = self._gap = False


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

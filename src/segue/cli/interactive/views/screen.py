"""The terminal: printed text stays; a few live lines below it are repainted while a turn runs."""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, final

from segue.cli.display.markdown import MarkdownStream
from segue.cli.display.terminal import Colours, ungated
from segue.cli.display.text_width import LiveLines, cut, wrapped
from segue.text.terminal_text import ControlSequence, Sanitiser, sanitised, styled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO


@final
class Screen:
    """Text above, live lines below. Writes are combined, so that nothing flickers."""

    def __init__(self, stream: TextIO, *, plain: bool = False, markdown: bool = True) -> None:
        """`plain`: no colours and no repainting, so no live lines. `markdown`: answers are rendered."""
        self._stream = ungated(stream)
        self.paint = Colours(stream, plain=plain)
        self.plain = plain
        self._renders_markdown = markdown and not plain
        self._live: tuple[str, ...] = ()
        self._lines_below: tuple[str, ...] = ()
        """Of the live lines: those that the caller asked for."""
        self._asides: list[str] = []
        """Lines that wait for the end of a block of the answer; they are live lines until then."""
        self._bottom = LiveLines()
        self._markdown: MarkdownStream | None = None
        self._sanitiser = Sanitiser()
        self._open_line = False
        """The last line of an answer has not ended."""
        self._waiting: list[str] = []
        self._after_gap = True
        """The last line that was printed is empty."""
        self._held: list[str] | None = None
        """What is to be printed when another program gives the terminal back; None while it is ours."""

    @property
    def width(self) -> int:
        return max(shutil.get_terminal_size().columns, 20)

    @property
    def height(self) -> int:
        return max(shutil.get_terminal_size().lines, 4)

    def line(self, text: str = "", colour: str = "") -> None:
        """Print a line of ours, with its styles. In the middle of an answer it waits for the end of the block."""
        shown = self.paint(colour, text) if colour else text
        if self._markdown is not None and not self._markdown.between_blocks:
            self._asides.append(shown)
            self.live(self._lines_below)
            return
        with self._at_once():
            if self._markdown is None:
                self.end_text()
            self._erase()
            self._put(f"{shown}\n")

    def gap(self) -> None:
        """One empty line before what comes next, if there is none yet. Plain terminals get none."""
        if not self.plain and not self._after_gap:
            self.line()
            self._after_gap = True

    def typed(self) -> None:
        """A prompt has written to the terminal meanwhile."""
        self._after_gap = False

    def paragraph(self, text: str, colour: str = "", indent: int = 0) -> None:
        """Print wrapped lines; those after the first are indented."""
        with self._at_once():
            for part in wrapped(sanitised(text), self.width - 1, indent):
                self.line(part, colour)

    def text(self, portion: str) -> None:
        """More of an answer, in Markdown."""
        shown = self._sanitiser.feed(portion)
        if not shown:
            return
        with self._at_once():
            live = self._lines_below
            self._erase()
            if self._renders_markdown:
                if self._markdown is None:
                    self._markdown = MarkdownStream(
                        self._put,
                        size=self._room,
                        style=not self.paint.plain,
                        colour=not self.paint.colourless,
                        after_block=self._print_asides,
                    )
                self._markdown.feed(shown)
                if self._asides and self._markdown.between_blocks:
                    self._print_asides()
                self.live(live)
            else:
                self.put(shown)

    def put(self, text: str) -> None:
        """Print sanitised text as it is."""
        self._erase()
        self._put(text)
        self._open_line = not text.endswith("\n") if text else self._open_line

    def end_text(self) -> None:
        """The answer is over, or another line interrupts it."""
        self._sanitiser = Sanitiser()
        if self._markdown is not None:
            with self._at_once():
                self._erase()
                self._markdown.finish()
                self._print_asides()
            self._markdown = None
        if self._open_line:
            self._put("\n")
            self._open_line = False

    def live(self, lines: Sequence[str]) -> None:
        """Show these lines at the bottom, in place of the previous ones. A plain terminal shows none."""
        if self.plain or self._open_line or self._held is not None:
            return
        self._lines_below = tuple(lines)
        fitting = (*self._asides, *lines)[-(self.height - 2) :]
        if fitting == self._live:
            return
        after_gap = self._after_gap
        with self._at_once():
            self._erase()
            self._put("".join(f"{line}\n" for line in fitting))
        self._live, self._after_gap = fitting, after_gap
        self._bottom.remember(fitting)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Another program has the terminal until the block ends; what is printed meanwhile follows then."""
        self.live(())
        held: list[str] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            self._put(ControlSequence("".join(held)))

    def clear(self) -> None:
        """Empty the screen. The scrollback of the terminal stays."""
        self.control("\x1b[2J\x1b[H")

    def control(self, sequence: str) -> None:
        """A sequence of ours that no text may hold. A plain terminal gets none."""
        if not self.plain:
            self._put(ControlSequence(sequence))

    def shortened(self, line: str, taken: int = 0) -> str:
        """The part of a line that fits beside `taken` columns."""
        return cut(line, max(self.width - 1 - taken, 0))

    def _room(self) -> tuple[int, int]:
        """For an answer: two live lines stand below it."""
        return self.width, self.height - 2

    def _print_asides(self) -> None:
        waiting, self._asides = self._asides, []
        for line in waiting:
            self._put(f"{line}\n")

    def _erase(self) -> None:
        self._live = ()
        self._put(self._bottom.erase(self.width))

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Write everything in the block at once."""
        if self._waiting:
            yield
            return
        self._waiting.append("")
        try:
            yield
        finally:
            written, self._waiting = ControlSequence("".join(self._waiting)), []
            self._put(written)

    def _put(self, text: str) -> None:
        if type(text) is not ControlSequence and text:
            self._after_gap = text == "\n" and not self._open_line
        text = styled(text)  # everything on its way to the terminal comes by here
        if self._waiting:
            self._waiting.append(text)
        elif self._held is not None:
            self._held.append(text)
        elif text:
            with suppress(OSError):  # the window was closed; the session is saved all the same
                self._stream.write(text)
                self._stream.flush()

"""The terminal while a turn runs: what is said stays where it was printed; a few live lines below it are repainted."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, final

from segue.cli.markdown import MarkdownStream
from segue.cli.sanitise import Sanitiser

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from segue.cli.terminal import Paint


@final
class Screen:
    """Text above, live lines below; never both being painted."""

    def __init__(self, stream: TextIO, paint: Paint, *, plain: bool = False) -> None:
        self._stream = stream
        self.paint = paint
        self._plain = plain
        self._live: tuple[str, ...] = ()
        self._markdown: MarkdownStream | None = None
        self._sanitiser = Sanitiser()

    @property
    def width(self) -> int:
        return max(shutil.get_terminal_size().columns, 20)

    @property
    def height(self) -> int:
        return max(shutil.get_terminal_size().lines, 4)

    def say(self, line: str = "") -> None:
        """A line that stays. It must not hold anything from outside that was not sanitised."""
        self.end_text()
        self._put(self._erased() + line + "\n")

    def text(self, portion: str) -> None:
        """More of an answer, in Markdown."""
        shown = self._sanitiser.feed(portion)
        if not shown:
            return
        self._put(self._erased())
        if self._plain:
            self._put(shown)
            return
        if self._markdown is None:
            self._markdown = MarkdownStream(self._put, width=min(self.width, 120), height=self.height)
        self._markdown.feed(shown)

    def end_text(self) -> None:
        """The answer is over, or something else comes in between."""
        self._sanitiser = Sanitiser()
        if self._markdown is not None:
            self._markdown.finish()
            self._markdown = None

    def live(self, lines: Sequence[str]) -> None:
        """Show these lines at the bottom instead of those before. A terminal that cannot repaint shows none."""
        if self._plain or self._markdown is not None:
            return
        fitting = tuple(lines)[-(self.height - 1) :]
        if fitting == self._live:
            return
        self._put(self._erased() + "".join(f"{line}\n" for line in fitting))
        self._live = fitting

    def clear(self) -> None:
        """An empty screen. What scrolled away stays in the terminal's own memory."""
        if not self._plain:
            self._put("\x1b[2J\x1b[H")

    def _erased(self) -> str:
        count, self._live = len(self._live), ()
        return f"\r\x1b[{count}A\x1b[J" if count else ""

    def _put(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()

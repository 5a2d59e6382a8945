"""Writing for people: errors and notes on stderr, colours only where they are welcome."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from typing import TextIO

    from segue.errors import SegueError

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


@final
class Paint:
    """Colours a stream's text, or leaves it plain: no terminal, NO_COLOR, or a dumb terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._plain = (
            not stream.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        )

    def __call__(self, colour: str, text: str) -> str:
        return text if self._plain else f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def say(text: str) -> None:
    """One line beside the result."""
    sys.stderr.write(printable(text) + "\n")


def complain(error: SegueError, who: str = "") -> None:
    """What went wrong, where, and what to do."""
    place = f" (at {error.path})" if error.path else ""
    sys.stderr.write(f"{Paint(sys.stderr)('red', 'segue:')} {printable(who + error.message + place)}\n")
    if error.hint:
        say(f"       {error.hint}")


def printable(text: str) -> str:
    """The text without control characters: what came from a file may not steer the terminal."""
    safe = text.encode("utf-8", "replace").decode()
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in safe)

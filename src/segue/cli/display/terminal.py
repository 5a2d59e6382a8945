"""Writing for people: errors and notes on stderr, colours only where they are welcome."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from typing import TextIO

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}

_INDENT: Final = " " * 7
"""Under the first word behind `segue:`."""


@final
class Colours:
    """Colours a stream's text, or leaves it plain: as wished, no terminal, NO_COLOR, or a dumb terminal."""

    def __init__(self, stream: TextIO, *, plain: bool = False) -> None:
        unwelcome = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self.plain = plain or unwelcome or not stream.isatty()

    def __call__(self, colour: str, text: str) -> str:
        return text if self.plain or not text else f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def columns_of(stream: TextIO) -> int:
    """How wide lines may be; 0 where nobody watches, and lines may be as long as they are."""
    if not stream.isatty():
        return 0
    import shutil  # noqa: PLC0415 - only tables need it

    return shutil.get_terminal_size().columns


def print_status(text: str) -> None:
    """One line beside the result."""
    sys.stderr.write(printable(text) + "\n")


def print_error(what: str, *more: str) -> None:
    """What went wrong, and below it what to do; broken between words where somebody watches."""
    room = columns_of(sys.stderr)
    first, *others = (part for text in (what, *more) for part in _lines(printable(text), room))
    sys.stderr.write(f"{Colours(sys.stderr)('red', 'segue:')} {first}\n")
    for line in others:
        sys.stderr.write(f"{_INDENT}{line}\n")


def _lines(text: str, room: int) -> list[str]:
    if not room:
        return text.split("\n")
    from segue.cli.display.text_width import wrapped  # noqa: PLC0415 - only for somebody who watches

    return [part for line in text.split("\n") for part in wrapped(line, room - 1 - len(_INDENT))]


def printable(text: str) -> str:
    """The text without control characters: what came from a file may not steer the terminal."""
    safe = text.encode("utf-8", "replace").decode()
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in safe)

"""The width of text on a terminal: some characters take two columns, some none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

from segue.text.terminal_text import ControlSequence

if TYPE_CHECKING:
    from collections.abc import Iterable

_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")


def width_of(text: str) -> int:
    """Columns of one line; colour codes take none."""
    bare = _COLOUR.sub("", text) if "\x1b" in text else text
    if bare.isascii():
        return len(bare)
    from rich.cells import cell_len  # noqa: PLC0415 - most text does without it

    return cell_len(bare)


def cut(line: str, most: int) -> str:
    """A line cut to at most `most` columns, with … at the cut."""
    if width_of(line) <= most:
        return line
    if most < 1:
        return ""
    kept = line[: most - 1]
    while width_of(kept) > most - 1:
        kept = kept[:-1]
    return f"{kept}…"


def cut_beginning(line: str, most: int) -> str:
    """The last `most` columns of a line."""
    kept = line[-max(most, 1) :]
    while width_of(kept) > most:
        kept = kept[1:]
    return kept


def padded(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """Lines of at most `width` columns, broken between words; all but the first are indented."""
    lines = [part for line in text.split("\n") for part in _broken(line, max(width - indent, 10))]
    return [line if not number else " " * indent + line for number, line in enumerate(lines)]


def _broken(line: str, room: int) -> list[str]:
    parts = []
    while width_of(line) > room:
        fitting = cut(line, room + 1)[:-1]
        words = fitting if line[len(fitting)] == " " else fitting.rpartition(" ")[0]
        kept = words if words.strip() else fitting
        parts.append(kept.rstrip())
        line = line[len(kept) :].lstrip(" ")
    return [*parts, line]


@final
class LiveLines:
    """Lines at the bottom of the screen that will be erased again."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._widths)

    def remember(self, lines: Iterable[str]) -> None:
        self._widths = [width_of(line.rstrip("\n")) for line in lines]

    def erase(self, columns: int) -> ControlSequence:
        """The sequence that erases them. A window that was made narrower has wrapped them into more rows."""
        rows = sum(max(-(-width // columns), 1) for width in self._widths)
        self._widths = []
        # Row by row: some terminals save everything below the first row to their scrollback when it is cleared.
        return ControlSequence("\r\x1b[K" + "\x1b[A\x1b[K" * rows if rows else "")

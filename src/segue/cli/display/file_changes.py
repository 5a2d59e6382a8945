"""What a call would change in a file: the lines of a diff, numbered as in the file."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.text.terminal_text import revealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_COLOURS: Final = {"+": "green", "-": "red", " ": "dim", "…": "dim"}
CONTEXT: Final = 3
"""Unchanged lines around each change."""
_LARGEST: Final = 1_000_000
"""Bytes of a file that is compared with its new content."""
_MOST_COMPARED: Final = 2_000
"""Lines that differ: finding the best diff of more takes too long."""


@final
class ChangedLine(Struct, frozen=True):
    """One line of a diff."""

    mark: str
    """"+", "-", " ", or "…" where lines are skipped."""
    number: int
    """In the new file; of a removed line in the old one. 0 if unknown."""
    text: str


@final
class FileChange(Struct, frozen=True):
    """A change of one file."""

    lines: tuple[ChangedLine, ...]
    is_new: bool = False

    @property
    def added(self) -> int:
        return sum(line.mark == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.mark == "-" for line in self.lines)


def change_of(arguments: Mapping[str, object], file: Path) -> FileChange | None:
    """What the arguments of a call would do to a file; None if they have no known shape."""
    content, old, new = (arguments.get(name) for name in ("content", "old", "new"))
    before = _present(file)
    if isinstance(content, str):
        return FileChange(tuple(difference(before or "", content)), is_new=before is None)
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    before = before or ""
    if "\r\n" in before:
        before, old, new = (text.replace("\r\n", "\n") for text in (before, old, new))
    if not old or old not in before:
        # The call will fail; what it asks for is shown all the same.
        return FileChange(tuple(structs.replace(line, number=0) for line in difference(old, new)))
    after = before.replace(old, new, -1 if arguments.get("every") is True else 1)
    return FileChange(tuple(difference(before, after)))


def change_lines(change: FileChange) -> tuple[tuple[str, str], ...]:
    """The lines of a change with their numbers, and their colours."""
    width = max((len(str(line.number)) for line in change.lines), default=1)
    return tuple(
        (
            f"{line.number or '':>{width}} {line.mark} {revealed(line.text).expandtabs(4)}".rstrip(),
            _COLOURS[line.mark],
        )
        for line in change.lines
    )


def difference(before: str, after: str) -> Iterator[ChangedLine]:
    """The changed lines, with a few unchanged ones around them."""
    old, new = _lines(before), _lines(after)
    last = 0
    for group in _groups(old, new):
        if last and group[0][1] > last:
            yield ChangedLine("…", 0, "")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                for place in range(new_start, new_end):
                    yield ChangedLine(" ", place + 1, new[place])
                continue
            for place in range(old_start, old_end):
                yield ChangedLine("-", place + 1, old[place])
            for place in range(new_start, new_end):
                yield ChangedLine("+", place + 1, new[place])
        last = group[-1][2]


def _groups(old: list[str], new: list[str]) -> Iterator[list[tuple[str, int, int, int, int]]]:
    shared = _shared(old, new)
    ending = _shared(old[shared:][::-1], new[shared:][::-1])
    removed, added = len(old) - shared - ending, len(new) - shared - ending
    if not removed and not added:
        return
    if max(removed, added) <= _MOST_COMPARED:
        yield from SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT)
        return
    start, end = max(shared - CONTEXT, 0), min(ending, CONTEXT)
    old_end, new_end = shared + removed, shared + added
    yield [
        ("equal", start, shared, start, shared),
        ("replace", shared, old_end, shared, new_end),
        ("equal", old_end, old_end + end, new_end, new_end + end),
    ]


def _shared(old: list[str], new: list[str]) -> int:
    """How many lines both begin with."""
    return next(
        (place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )


def _lines(text: str) -> list[str]:
    """Lines as other programs count them."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _present(file: Path) -> str | None:
    """The text of the file; None if there is none."""
    try:
        if not file.is_file():
            return None
        return file.read_text("utf-8", "replace") if file.stat().st_size <= _LARGEST else ""
    except (OSError, ValueError):
        return None

"""A screen as text: each row, and below it how its letters look where they are not plain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from pyte.screens import Char


def golden(lines: Iterable[Sequence[Char]], look: Callable[[Char], str]) -> str:
    """`look`: how a letter looks, "" if it is plain."""
    return "\n".join(_rows(lines, look)).rstrip() + "\n"


def _rows(lines: Iterable[Sequence[Char]], look: Callable[[Char], str]) -> Iterator[str]:
    for cells in lines:
        yield "".join(cell.data for cell in cells).rstrip()
        looks = ((place, look(cell)) for place, cell in enumerate(cells))
        runs = [
            (shown, [place for place, _ in run]) for shown, run in groupby(looks, key=lambda found: found[1])
        ]
        if any(shown for shown, _ in runs):
            yield "\t" + "  ".join(f"{places[0]}–{places[-1]} {shown}" for shown, places in runs if shown)


def look_of(cell: Char, *, dim: bool = False) -> str:
    assert cell.bg == "default"
    names = [name for name, on in (("bold", cell.bold), ("italic", cell.italics), ("dim", dim)) if on]
    return " ".join([*names, *([cell.fg] if cell.fg != "default" else [])])

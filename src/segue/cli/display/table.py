"""A plain table on the standard output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from segue.terminal_text import sanitised

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """The first row is the heading. Cells are made safe for a terminal."""
    cells = [[sanitised(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")

"""Lists on the standard output: tables, names with what is known about them, JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import SegueError
from segue.text.terminal_text import safe_json, sanitised

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from segue.config.paths import NamedFiles


def print_json(value: object) -> None:
    """A value of ours, for scripts. Only ASCII, so that it is the same in every locale."""
    import msgspec  # noqa: PLC0415 - `--help` needs none of it

    sys.stdout.write(safe_json(json.dumps(msgspec.to_builtins(value), indent=2)) + "\n")


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """The first row is the heading. Cells are made safe for a terminal."""
    cells = [[sanitised(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def print_names(files: NamedFiles, lines: Callable[[], list[str]], *, only_folder: bool) -> int:
    """What `segue agents` and `segue templates` print: the lines, or only the folder for files of the user's own."""
    shown = [str(files.user_folder())] if only_folder else lines()
    for line in shown:
        sys.stdout.write(f"{line}\n")
    if not shown:
        print_status(f"There are no {files.kind}s. Yours are files in {files.user_folder()}.")
    return Exit.OK


def name_lines(names: Collection[str], about: Callable[[str], str]) -> list[str]:
    """One line for each name. `about` may raise SegueError."""
    width = max(map(len, names), default=0)
    lines = []
    for name in names:
        try:
            known = about(name)
        except SegueError as error:
            known = f"{error.message} {error.hint}"
        lines.append(sanitised(f"{name:<{width}}  {known}"))
    return lines

"""A list of names, each with what is known about it, or with why it cannot be used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import SegueError
from segue.terminal_text import sanitised

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path


def print_names(kind: str, folder: Path, lines: Callable[[], list[str]], *, only_folder: bool) -> int:
    """What `segue agents` and `segue templates` print: the lines, or only the folder for files of the user's own."""
    shown = [str(folder)] if only_folder else lines()
    for line in shown:
        sys.stdout.write(f"{line}\n")
    if not shown:
        print_status(f"There are no {kind}. Yours are files in {folder}.")
    return Exit.OK


def name_lines(names: Collection[str], about: Callable[[str], str]) -> list[str]:
    """One line for each name. `about` may raise SegueError."""
    width = max(map(len, names), default=0)
    return [sanitised(f"{name:<{width}}  {_about_or_error(name, about)}") for name in names]


def _about_or_error(name: str, about: Callable[[str], str]) -> str:
    try:
        return about(name)
    except SegueError as error:
        return f"{error.message} {error.hint}"

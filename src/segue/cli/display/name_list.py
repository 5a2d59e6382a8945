"""A list of names, each with what is known about it, or with why it cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.errors import SegueError
from segue.terminal_text import sanitised

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def name_lines(names: Collection[str], about: Callable[[str], str]) -> list[str]:
    """One line for each name. `about` may raise SegueError."""
    width = max(map(len, names), default=0)
    return [sanitised(f"{name:<{width}}  {_about_or_error(name, about)}") for name in names]


def _about_or_error(name: str, about: Callable[[str], str]) -> str:
    try:
        return about(name)
    except SegueError as error:
        return f"{error.message} {error.hint}"

"""Errors that say also what was being done, of the same class and with the same remedy."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from segue.errors import SegueError

if TYPE_CHECKING:
    from collections.abc import Iterator

E = TypeVar("E", bound=SegueError)


def blamed(error: E, on: str) -> E:
    """The error, told as the reason why something could not be done."""
    told = copy(error)
    told.message = f"{on}: {error.message}"
    told.args = (told.message,)
    told.__cause__ = error
    return told


@contextmanager
def blaming(on: str) -> Iterator[None]:
    """What goes wrong inside is told as the reason why something could not be done."""
    try:
        yield
    except SegueError as error:
        raise blamed(error, on) from error

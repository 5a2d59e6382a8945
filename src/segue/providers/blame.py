"""Errors that say also what was being done, of the same class and with the same remedy."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from segue.errors import SegueError

E = TypeVar("E", bound="SegueError")


def blamed(error: E, on: str) -> E:
    """The error, told as the reason why something could not be done."""
    told = copy(error)
    told.message = f"{on}: {error.message}"
    told.args = (told.message,)
    told.__cause__ = error
    return told

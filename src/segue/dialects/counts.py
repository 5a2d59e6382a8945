"""Token counts as they stand in replies, read without trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(held: Mapping[str, Any], name: str) -> int | None:
    """A whole number; None if there is none."""
    value = held.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def total(*counts: int | None) -> int | None:
    """The sum of what was counted; None if nothing was."""
    known = [number for number in counts if number is not None]
    return sum(known) if known else None

"""Token counts as they stand in replies: read without trust, and put together as they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(held: Mapping[str, Any], name: str) -> int | None:
    """A whole number, or nothing."""
    value = held.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def total(*counts: int | None) -> int | None:
    """The sum of what was counted; nothing if nothing was."""
    known = [number for number in counts if number is not None]
    return sum(known) if known else None


def merged(known: Usage, told: Usage) -> Usage:
    """Counts that are told replace those that were known."""
    changed = {name: value for name in Usage.__struct_fields__ if (value := getattr(told, name)) is not None}
    return structs.replace(known, **changed) if changed else known

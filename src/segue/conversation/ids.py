"""Canonical call ids: neutral, readable, minted once from a position and never from a provider's raw id."""

from __future__ import annotations

_PREFIX = "call-"


def mint(ordinal: int) -> str:
    """The canonical id of the n-th call of a conversation, counted from 0 over its whole life."""
    return f"{_PREFIX}{ordinal}"


def next_ordinal(minted: int, call_id: str) -> int:
    """How many ids count as minted once `call_id` is in use, so that an id given by hand is never minted again."""
    digits = call_id.removeprefix(_PREFIX)
    if call_id != digits and digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return max(minted, int(digits)) + 1
    return minted + 1

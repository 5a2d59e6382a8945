"""Canonical call ids: neutral, short, minted once from a position and never from a provider's raw id."""

from __future__ import annotations

import re

MINTED = "c"
"""What a minted id begins with; a number follows."""

_MINTED = re.compile(rf"{MINTED}(0|[1-9][0-9]{{0,17}})")


def mint(ordinal: int) -> str:
    """The canonical id of the n-th call of a conversation, counted from 0 over its whole life."""
    return f"{MINTED}{ordinal}"


def is_minted(call_id: str) -> bool:
    return _MINTED.fullmatch(call_id) is not None


def next_ordinal(minted: int, call_id: str) -> int:
    """How many ids count as minted once `call_id` is in use, so that an id given by hand is never minted again."""
    if call_id == f"{MINTED}{minted}":  # almost always: it was minted in its turn
        return minted + 1
    known = _MINTED.fullmatch(call_id)
    return max(minted, int(known[1])) + 1 if known else minted + 1

"""The generic cell rate algorithm: how much may pass in a minute, kept as one number.

That number is the moment when the allowance would be whole again. It needs no counter per window, and a minute that has
just begun gives nobody twice as much.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

MINUTE: Final = 60.0


class Passage(NamedTuple):
    """`wait` 0.0: it may pass, and `due` is the number to keep."""

    due: float
    wait: float


def take(due: float, now: float, cost: float, per_minute: int) -> Passage:
    """Take `cost` out of an allowance that fills evenly, `per_minute` at most. What is dearer than the whole allowance
    passes when the allowance is whole; all others wait for it."""
    full_at = max(due, now)
    after = full_at + cost * MINUTE / per_minute
    wait = min(after - now - MINUTE, full_at - now)
    return Passage(after, 0.0) if wait <= 1e-9 else Passage(due, wait)


def give_back(due: float, amount: float, per_minute: int) -> float:
    """`amount` was taken too much, or too little if it is negative."""
    return due - amount * MINUTE / per_minute


def left(due: float, now: float, per_minute: int) -> int:
    """How much may pass at once."""
    return max(0, int(per_minute - max(0.0, due - now) * per_minute / MINUTE + 1e-6))


def parts(due: float, now: float, size: float, per_minute: int) -> int:
    """How many whole parts of this size may pass at once; negative if too much has passed."""
    return math.floor((MINUTE - max(0.0, due - now)) / (size * MINUTE / per_minute))

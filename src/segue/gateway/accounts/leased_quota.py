"""Requests that the store has admitted ahead of time, for callers that send many a second to one process.

All processes queue for a caller's row in the store, so that a request at a time gets it some hundred a second. A busy process
reserves a block instead, as many requests as it had in the last moment, and admits the next ones from it. Whatever it holds
was taken from the limits before, and near a limit the store gives no blocks.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, final

from segue.gateway.accounts.budget_rules import Charge

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from segue.gateway.accounts.account import Account
    from segue.gateway.accounts.store import Admission

LEASE_SECONDS: Final = 0.5
"""For which a block may be used."""
_MOMENT: Final = 0.05
"""Seconds: a block is for as many requests as came in the last ones, so that little is left of it when they stop."""
_BUSY: Final = 4
"""Requests in a moment. With fewer there is nothing to gain."""
_MOST: Final = 100
"""Requests of a block."""


@final
class LeasedQuota:
    """What this process holds of one caller's limits."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._recent: deque[tuple[float, Charge]] = deque(maxlen=_MOST)
        self._block: Admission | None = None
        self._used = 0
        self._ends = 0.0
        self._alone_until = 0.0
        self.taking: asyncio.Task[None] | None = None
        """A block that the store is asked for."""
        self.waiting = 0
        """Requests that wait for it."""

    def note(self, estimate: Charge) -> None:
        """A request has come."""
        self._recent.append((self._clock(), estimate))

    def take(self, account: Account, estimate: Charge) -> Admission | None:
        """A request of the block, if it is large enough and the caller's limits are still those that it was taken from."""
        block = self._block
        if (
            block is None
            or self._clock() >= self._ends
            or estimate.tokens > block.estimate.tokens
            or estimate.micros > block.estimate.micros
            or block.account.allowance != account.allowance
        ):
            return None
        slot = block.slot(self._used)
        self._used += 1
        if self._used == block.slots:
            self._block = None
        return slot

    def wanted(self) -> tuple[Charge, int]:
        """For how many requests the next block should be, each as large as the largest of the last ones."""
        now = self._clock()
        requests = max(self.waiting, sum(now - moment <= _MOMENT for moment, _ in self._recent))
        if self._block is not None or now < self._alone_until or requests < _BUSY:
            return Charge(), 1
        last = [charge for _, charge in self._recent][-requests:]
        return Charge(max(each.tokens for each in last), max(each.micros for each in last)), len(last)

    def hold(self, block: Admission) -> list[Admission]:
        """Use a new block; what is left of the old one."""
        left = self.release()
        self._block, self._used = block, 0
        self._ends = self._clock() + LEASE_SECONDS
        if block.slots > 1:
            self._alone_until = 0.0
        return left

    def stay_alone(self) -> None:
        """Ask for no block for a while: a limit is near, or the store cannot be reached."""
        self._alone_until = self._clock() + LEASE_SECONDS

    def release(self, block: Admission | None = None) -> list[Admission]:
        """What is left of the block, which is used no more; nothing if it is not this one."""
        held = self._block
        if held is None or (block is not None and block is not held):
            return []
        self._block = None
        return [held.slot(number) for number in range(self._used, held.slots)]

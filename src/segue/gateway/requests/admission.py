"""Whether a request is let in, before its body is read: whether the process keeps up with its work, and how many requests its
caller has running here. A process that is late lets every stream wait; so it refuses new requests, clearly and at once,
until it is in time again."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

from segue.gateway.accounts.budget_rules import Refusal
from segue.gateway.requests.client_errors import limit_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.gateway.accounts.account import Account

TICK_SECONDS: Final = 0.2
TICKS: Final = 3
"""So many times in a row the process must have been late: one pause is not yet an overload."""


@final
class LoopWatch:
    """Measures how late the event loop is while there is work. Without work nothing runs."""

    def __init__(self, max_lag: float) -> None:
        """`max_lag`: seconds."""
        self._max_lag = max_lag
        self._due = 0.0
        self._late = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._used = False

    @property
    def overloaded(self) -> bool:
        return self._late >= TICKS

    def begin(self) -> None:
        """A request has come."""
        self._used = True
        loop = asyncio.get_running_loop()
        if self._timer is None or self._loop is not loop:
            self._loop, self._late = loop, 0
            self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + TICK_SECONDS
        self._timer = loop.call_at(self._due, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        late = loop.time() - self._due > self._max_lag
        self._late = self._late + 1 if late else 0
        if self._used or self._late:
            self._used = False
            self._schedule(loop)
        else:
            self._timer = None


@final
class RunningRequests:
    """Those of each caller in this process. On all gateways together they are at least as many, so that whoever has too many here
    need not send a body first."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    @contextmanager
    def counted(self, account: Account) -> Iterator[None]:
        """Raises if the caller has as many already as it may."""
        name, most = account.name, account.allowance.concurrent
        if most is None:
            yield
            return
        if self._running[name] >= most:
            raise limit_error(account, Refusal("concurrent", 1.0))
        self._running[name] += 1
        try:
            yield
        finally:
            self._running[name] -= 1

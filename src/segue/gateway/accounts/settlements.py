"""What requests came to, counted in the store after their replies: several together, and again later if the store cannot be reached."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, final

from segue.errors import JournalError, StoreUnreachableError
from segue.gateway.accounts.store import Settlement, UsageRow, add_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from segue.gateway.accounts.store import AccountStore

_FLUSH_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 0.05
"""Within which requests of callers that are far from their limits are settled: several together, and not just when the same
client sends its next request."""
_BATCH: Final = 100
"""Requests that are settled together."""
_MOST_ROWS: Final = 10_000
"""Of usage that waits for a store which cannot be reached."""
_MOST_UNSETTLED: Final = 10_000
"""Requests that have ended and wait for such a store."""
_AGAIN_SECONDS: Final = 2.0
_LOG: Final = logging.getLogger("segue.gateway")


@final
class Settlements:
    """Requests that have ended, on their way into the store."""

    def __init__(self, store: AccountStore) -> None:
        self._store = store
        self._ended: list[Settlement] = []
        self._unsettled: list[Settlement] = []
        """Those that the store may have counted without an answer."""
        self.running: asyncio.Task[None] | None = None
        """Some are being settled."""
        self._later: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._last_try = False
        self._rows: dict[tuple[str, str, str, str], UsageRow] = {}
        self._flush: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def add(self, ended: Iterable[Settlement], *, can_wait: bool = False) -> None:
        """`can_wait`: their callers are far from all limits, so that others may be waited for."""
        self._ended += ended
        if not can_wait:
            self.settle_next()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self.settle_next)

    def record_later(self, rows: Sequence[UsageRow]) -> None:
        """Together with others: without limits, usage is all that a store is needed for."""
        for row in rows:
            if len(self._rows) < _MOST_ROWS or row.place in self._rows:
                add_usage(self._rows, row)
        if self._flush is None or self._flush.done():
            self._flush = self.start(self._flush_later())

    def settle_next(self) -> None:
        """Requests that end while others are being settled are settled together after them."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._ended and self.running is None:
            batch, self._ended = self._ended[:_BATCH], self._ended[_BATCH:]
            self.running = self.start(self._settle(batch))
            self.running.add_done_callback(self._after)

    def _after(self, settled: asyncio.Task[None]) -> None:
        self.running = None
        if not settled.cancelled():
            self.settle_next()

    async def _settle(self, ended: Sequence[Settlement]) -> None:
        try:
            await self._store.settle(ended)
        except StoreUnreachableError as error:
            self._settle_again_later(ended, error)
        except Exception as error:
            if len(ended) > 1:
                # Only one of them may be at fault: the others count.
                for each in ended:
                    await self._settle([each])
                return
            if isinstance(error, JournalError):
                for each in ended:
                    self.record_later(each.rows)
            names = ", ".join(sorted({each.admission.account.name for each in ended}))
            _LOG.warning("What requests of %s cost was not counted: %s", names, _named(error))

    def _settle_again_later(self, ended: Sequence[Settlement], error: StoreUnreachableError) -> None:
        """It may have been done without an answer, so that nothing else than the same may be tried: a second time that does
        nothing. Meanwhile their reservations count."""
        room = 0 if self._last_try else max(0, _MOST_UNSETTLED - len(self._unsettled))
        self._unsettled += ended[:room]
        for each in ended[room:]:
            self.record_later(each.rows)
        if self._unsettled and self._again is None:
            self._again = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._settle_again)
        names = ", ".join(sorted({each.admission.account.name for each in ended}))
        _LOG.warning("What requests of %s cost was not counted%s: %s", names, " yet" if room else "", error)

    def _settle_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._ended, self._unsettled = [*self._unsettled, *self._ended], []
        self.settle_next()

    async def _flush_later(self) -> None:
        await asyncio.sleep(_FLUSH_SECONDS)
        await self._record()

    async def _record(self) -> None:
        rows, self._rows = self._rows, {}
        if not rows:
            return
        try:
            await self._store.record(list(rows.values()))
        except JournalError as error:
            _LOG.warning("Usage was not recorded yet: %s", error)
            for row in rows.values():
                add_usage(self._rows, row)
        except Exception:
            for row in rows.values():
                await self._record_alone(row)

    async def _record_alone(self, row: UsageRow) -> None:
        """One of several of which one cannot be kept."""
        try:
            await self._store.record([row])
        except Exception as error:
            _LOG.warning("Usage of %s was not recorded: %s", row.caller, _named(error))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that ends before the store is closed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self, release: Callable[[], None]) -> None:
        """Wait until everything that has ended is counted. `release` adds what is held and not used."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        self._last_try = True
        self._settle_again()
        while True:
            release()
            self.settle_next()
            if not self._tasks:
                break
            await asyncio.wait(self._tasks)
        await self._record()
        self._last_try = False


def _named(error: Exception) -> str:
    return str(error) if isinstance(error, JournalError) else f"{type(error).__name__}: {error}"

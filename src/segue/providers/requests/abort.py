"""Waits that end when an abort is set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable

Result = TypeVar("Result")


class AbortedError(Exception):
    """The abort was set. Never seen outside of a provider."""


@final
class Waiting(Struct):
    """All waits of one exchange; `close` it at the end. Without an abort it costs nothing."""

    abort: asyncio.Event | None
    _limit: asyncio.Timeout | None = None
    _watcher: asyncio.Task[bool] | None = None

    @property
    def aborted(self) -> bool:
        return self.abort is not None and self.abort.is_set()

    def check(self) -> None:
        """Raise AbortedError if it is set."""
        if self.abort is not None and self.abort.is_set():
            raise AbortedError

    def for_(self, result: Awaitable[Result]) -> Awaitable[Result]:
        """Wait for it in this task: what it holds open is closed before AbortedError is raised."""
        return result if self.abort is None else self._watched(result, self.abort)

    async def _watched(self, result: Awaitable[Result], abort: asyncio.Event) -> Result:
        if self._watcher is None:
            self._watcher = asyncio.ensure_future(abort.wait())
            self._watcher.add_done_callback(self._end_wait)
        try:
            async with asyncio.timeout(0 if self.aborted else None) as self._limit:
                return await result
        except TimeoutError:
            if self.aborted:
                raise AbortedError from None
            raise
        finally:
            self._limit = None

    def _end_wait(self, watcher: asyncio.Task[bool]) -> None:
        limit = self._limit
        # A wait that began after the abort has its own end, which may be coming already.
        if limit is not None and not limit.expired() and not watcher.cancelled():
            limit.reschedule(asyncio.get_running_loop().time())

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()

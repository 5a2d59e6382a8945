"""A thread for a store's disk: the event loop keeps running while the disk writes.

The loop may be showing another session's stream, and a slow disk takes 10 ms and more. A thread of its own rather than the loop's pool: that takes twice as long to hand over, several loops can
share this one, and a connection stays in one thread.
"""

from __future__ import annotations

import asyncio
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Worker:
    """Does one thing after another, for whichever loop asks. What was begun is done, also when its caller has gone."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._closed = False

    async def run(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if self._closed:
            raise UsageError("The store is closed.", code="store_closed", hint="Open it again.")
        if self._thread is None:
            # A daemon: nobody should wait for it who forgot to close the store, and a write is whole or not there.
            self._thread = Thread(target=_work, args=(self._queue,), name=self._name, daemon=True)
            self._thread.start()
        job = _Job(asyncio.get_running_loop(), lambda: do(*args, **kwargs))
        self._queue.put(job)
        result: _T = await job.done
        return result

    async def close(self, last: Callable[[], None]) -> None:
        if not self._closed:
            if self._thread is not None:
                await self.run(last)
            self._closed = True
            self._queue.put(None)


class _Job:
    __slots__ = ("_do", "_loop", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop, do: Callable[[], object]) -> None:
        self._loop = loop
        self._do = do
        self.done: asyncio.Future[Any] = loop.create_future()

    def perform(self) -> None:
        result: object = None
        failure: BaseException | None = None
        try:
            result = self._do()
        except BaseException as error:  # it is the caller's
            failure = error
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._report, result, failure)

    def _report(self, result: object, failure: BaseException | None) -> None:
        if self.done.cancelled():
            return
        if failure is not None:
            self.done.set_exception(failure)
        else:
            self.done.set_result(result)


def _work(queue: SimpleQueue[_Job | None]) -> None:
    while (job := queue.get()) is not None:
        job.perform()

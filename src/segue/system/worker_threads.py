"""Threads beside the event loop, which keeps running while a disk writes, a database answers or a tool works.

The loop may be showing another session's stream, and a slow disk takes 10 ms and more. The threads of a store are its own
rather than the loop's pool: that takes twice as long to hand over, several loops can share these, and a connection stays in
one thread.
"""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from msgspec import Struct, field

from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Worker(Struct):
    """Does one thing after another in each of its threads, for whichever loop asks. What was begun is done, also when its
    caller has gone. A thread is started when all others are busy."""

    name: str
    threads: int = 1
    """At most."""
    _queue: SimpleQueue[_Job] = field(default_factory=SimpleQueue)
    _started: int = 0
    _unfinished: int = 0
    _lock: Lock = field(default_factory=Lock)
    _closed: bool = False

    async def run(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self.submit(do, *args, **kwargs)

    def submit(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> asyncio.Future[_T]:
        """The same for those who may not want to wait until it is done."""
        if self._closed:
            raise UsageError("The store is closed.", code="store_closed", hint="Open it again.")
        loop = asyncio.get_running_loop()
        job = _Job(loop, loop.create_future(), partial(do, *args, **kwargs))
        with self._lock:
            self._unfinished += 1
            if starts := self._started < min(self._unfinished, self.threads):
                self._started += 1
        if starts:
            # A daemon: nobody should wait for it who forgot to close the store, and a write is whole or not there.
            Thread(target=self._work, name=self.name, daemon=True).start()
        self._queue.put(job)
        return job.done

    @property
    def unfinished(self) -> int:
        """How many things are being done or wait for their turn."""
        return self._unfinished

    async def close(self, last: Callable[[], None], seconds: float | None = None) -> None:
        """`last` is done once in every thread, after everything that was asked for before. Whoever closes waits at most so many
        seconds for it: a disk or a database may hang."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        jobs = [_Job(loop, loop.create_future(), last, is_last=True) for _ in range(self._started)]
        for job in jobs:
            self._queue.put(job)
        if jobs:
            done, _ = await asyncio.wait([job.done for job in jobs], timeout=seconds)
            for each in done:
                each.result()

    def _work(self) -> None:
        while True:
            job = self._queue.get()
            job.perform()
            if job.is_last:
                return
            with self._lock:
                self._unfinished -= 1


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    do: Callable[[], object]
    is_last: bool = False

    def perform(self) -> None:
        result: object = None
        failure: BaseException | None = None
        try:
            result = self.do()
        except BaseException as error:  # it is raised again where the work is awaited
            failure = error
        with suppress(RuntimeError):  # the loop may be closed by now
            self.loop.call_soon_threadsafe(self._report, result, failure)

    def _report(self, result: object, failure: BaseException | None) -> None:
        if self.done.done():
            return
        if failure is None:
            self.done.set_result(result)
        elif isinstance(failure, Exception) and not isinstance(failure, StopIteration):
            self.done.set_exception(failure)
        else:
            # A future takes no StopIteration, and an exit asked for in a thread must not end the loop.
            self.done.set_exception(RuntimeError(f"{type(failure).__name__}: {failure}"))


async def in_thread(work: Callable[[], _T], name: str = "segue-tool") -> _T:
    """Run it in a thread of its own, with this task's context variables. Cancelling stops the waiting, not the thread.

    The loop's pool is small, and its threads are waited for at exit: a tool that was cancelled but never returns would hold
    up everything else.
    """
    loop = asyncio.get_running_loop()
    job = _Job(loop, loop.create_future(), partial(contextvars.copy_context().run, work))
    Thread(target=job.perform, name=name, daemon=True).start()
    result: _T = await job.done
    return result

"""An event loop in a thread of its own, and how to wait for what runs in a loop elsewhere."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, final

from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


@final
class LoopThread:
    """Runs from the moment it is made. A daemon: a program that forgets to end it is not held up."""

    def __init__(self, name: str) -> None:
        begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=_live, args=(begun,), name=name, daemon=True)
        self._thread.start()
        self.loop, self._end = begun.result()

    def end(self) -> None:
        """Cancel what runs, and wait until the loop is closed."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


def _live(begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    async def until_ended() -> None:
        end = asyncio.Event()
        begun.set_result((asyncio.get_running_loop(), end))
        await end.wait()

    asyncio.run(until_ended())


async def await_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> _T:
    """Cancelling the waiting cancels the work."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def wait_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> _T:
    """The same for a thread without a loop; Ctrl-C cancels the work."""
    if _running_loop() is loop:
        work.close()
        raise UsageError(
            "A synchronous client cannot be used in the event loop of the gateway: it would block the gateway that it waits for.",
            code="blocking_client",
            hint="Use the asynchronous client, or call it in a thread: asyncio.to_thread.",
        )
    running = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return running.result()
    except BaseException:
        running.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

"""Synchronous work beside the event loop.

Each piece has a thread of its own: the loop's pool is small, and its threads are waited for at exit, so a tool that was
cancelled but never returns would hold up everything else.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_thread(work: Callable[[], T], name: str = "segue-tool") -> T:
    """Run it in a thread, with this task's context variables. Cancelling stops the waiting, not the thread."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: T | None, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(value)  # type: ignore[arg-type]  # no error: the value is the work's
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            outcome.set_exception(error)
        else:
            # A future takes no StopIteration, and an exit asked for in a thread must not end the loop.
            outcome.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(work)
        except BaseException as caught:  # it is raised again where the work is awaited
            error = caught
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await outcome

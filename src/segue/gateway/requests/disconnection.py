"""Work for a client that may go away: then the work ends too, and with it the provider's stream."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from segue.errors import SegueError
from segue.gateway.requests.web import until_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from segue.gateway.requests.web import Receive

ON_DISCONNECT: Final = "segue.on_disconnect"
"""In the scope of a request, where our server serves it: a set of functions that are called when the client has gone."""


async def work_until_gone(
    work: Coroutine[Any, Any, None], scope: Mapping[str, Any], receive: Receive, *, cancels: bool
) -> bool:
    """Do the work. Whether the client went away before its end; `cancels`: which ends it."""
    watchers: set[Callable[[], None]] | None = scope.get(ON_DISCONNECT)
    if watchers is None:
        return await _ask_whether_gone(asyncio.ensure_future(work), receive, cancels=cancels)
    task, went = asyncio.current_task(), False

    def gone() -> None:
        nonlocal went
        went = True
        if task is not None and cancels:
            task.cancel()

    watchers.add(gone)
    try:
        await work
    except asyncio.CancelledError:
        if not went or task is None or task.uncancel():
            raise
    finally:
        watchers.discard(gone)
    return went


async def _ask_whether_gone(working: asyncio.Future[None], receive: Receive, *, cancels: bool) -> bool:
    """The same where the server has to be asked."""
    gone, went = asyncio.ensure_future(until_gone(receive)), False
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            went = True
            if cancels:
                working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    finally:
        gone.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError, SegueError):
                await working
    return went

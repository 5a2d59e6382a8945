"""Work on large bodies: in a thread beside the event loop, and one at a time, so that other requests do not wait for it."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, TypeVar

from segue.system.worker_threads import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

LARGE: Final = 2 << 20
"""What a body counts in the budget, at least. A smaller one is read within some milliseconds."""
_WORKER: Final = Worker("segue-large-bodies")


async def read_beside(weight: int, work: Callable[[], _T]) -> _T:
    """Do the work on a body that counts for so much."""
    if weight <= LARGE:
        return work()
    # Whoever leaves takes the work along, and the body with it: bodies of clients that have gone are not queued up.
    waiting, context = [work], copy_context()
    try:
        done = await _WORKER.run(lambda: [context.run(each) for each in waiting])
    except asyncio.CancelledError:
        waiting.clear()
        raise
    return done[0]

"""A deadline for the waits of one task, which may be moved from wait to wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

NEVER: Final = float("inf")


class Deadline:
    """`with deadline:` around a wait raises TimeoutError when it takes too long; `close` it at the end.

    A timer for each wait, as `asyncio.timeout` sets it, would cost more than most waits: this one stays as it is when the
    deadline is put off, and looks at it when it goes off.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._at = NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False

    def begin(self, seconds: float) -> None:
        """So long from now."""
        self.move(self.loop.time() + seconds)

    def move(self, at: float, *, look_at: float = NEVER) -> None:
        """To this time of the loop's clock. `look_at`: when to look at the latest, because it may be moved forward soon."""
        self._at = at
        timer = self._timer
        if timer is not None and timer.when() > at:
            self.close()
            timer = None
        if timer is None and at != NEVER:
            self._timer = self.loop.call_at(min(at, look_at), self._look)

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task(self.loop)
        if task is not None:
            self._cancelling = task.cancelling()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._expired and task is not None:
            self._expired = False
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self.loop.time() < self._at:
            self.move(self._at)
        elif self._task is not None:
            self._expired = True
            self._task.cancel()

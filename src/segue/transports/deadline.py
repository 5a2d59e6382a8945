"""Deadlines for the waits of one task, and how long each wait of a request may last."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from segue.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from segue.transports.transport import WireRequest

NEVER: Final = float("inf")
Wait: TypeAlias = Literal["connect", "first_byte", "whole_reply", "idle", "total"]
_TOO_LONG: Final[Mapping[Wait, str]] = {
    "connect": "No connection to {place} within {seconds:g} s.",
    "first_byte": "{place} accepted the request and sent nothing for {seconds:g} s.",
    "whole_reply": "{place} accepted the request and sent no reply for {seconds:g} s.",
    "idle": "{place} stopped in the middle of its answer and sent nothing for {seconds:g} s.",
    "total": "{place} did not end its answer within {seconds:g} s.",
}


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


@final
class WaitLimits(Deadline):
    """The limits of one request, watched by one timer. Which one holds depends on how far it has come."""

    def __init__(self, request: WireRequest) -> None:
        super().__init__()
        self.request = request
        self._timeouts = timeouts = request.timeouts
        self._idle = NEVER if timeouts.idle is None else timeouts.idle
        self._end = NEVER if timeouts.total is None else self.loop.time() + timeouts.total
        self._first_byte = NEVER
        self.begun = False
        """Whether some of the body is here: from then on silence is what counts."""

    def connected(self) -> None:
        """The connection stands: from now on the server is waited for."""
        now = self.loop.time()
        seconds: float | None = getattr(self._timeouts, self.request.first_wait)
        if seconds is not None:
            self._first_byte = now + seconds
        self.move(min(self._end, self._first_byte), look_at=now + self._idle)

    def __enter__(self) -> None:
        super().__enter__()
        now = self.loop.time()
        if self.begun and self._timer is not None:
            # Each wait may last longer than the one before, and the timer goes off before either: most waits end here.
            self._at = min(self._end, now + self._idle)
            return
        limit = now + self._idle if self.begun else self._first_byte
        # Not later than silence would be noticed, so that the first wait for more need not set the timer anew.
        self.move(min(self._end, limit), look_at=now + self._idle)

    def too_long(self, what: Wait) -> TransportError:
        if self.loop.time() >= self._end:
            what = "total"
        elif what != "connect":
            what = "idle" if self.begun else self.request.first_wait
        seconds: float = getattr(self._timeouts, what) or 0.0
        return TransportError(
            _TOO_LONG[what].format(place=self.request.place, seconds=seconds),
            code=f"{what}_timeout",
            hint=f"Try again, or allow more time: timeouts.{what}.",
        )

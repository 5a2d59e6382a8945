"""Deadlines for the waits of one task, and how long each wait of a request may last."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final
from weakref import WeakKeyDictionary

from segue.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from segue.transports.transport import WireRequest

NEVER: Final = float("inf")
WaitKind: TypeAlias = Literal["connect", "first_byte", "whole_reply", "idle", "total"]
_TOO_LONG: Final[Mapping[WaitKind, str]] = {
    "connect": "No connection to {place} within {seconds:g} s.",
    "first_byte": "{place} accepted the request and sent nothing for {seconds:g} s.",
    "whole_reply": "{place} accepted the request and sent no reply for {seconds:g} s.",
    "idle": "{place} stopped in the middle of its answer and sent nothing for {seconds:g} s.",
    "total": "{place} did not end its answer within {seconds:g} s.",
}


class Deadline:
    """`with deadline:` around a wait raises TimeoutError when it takes too long.

    A reply of 500 chunks has 500 waits, and nearly all end in time. `asyncio.timeout` makes a timer for each and cancels it again:
    34,900 instructions a wait (CPython 3.11, callgrind). One timer that watches the waits of all tasks and is set anew only when
    it goes off takes 4,700; a timeout that lasts and is rescheduled for each wait, 18,300. Public parts of asyncio are enough.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.at = NEVER
        """By the loop's clock."""
        self._watch = _watch_of(self.loop)
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False

    def begin(self, seconds: float) -> None:
        """So long from now."""
        self.move(self.loop.time() + seconds)

    def move(self, at: float) -> None:
        """To this time of the loop's clock."""
        self.at = at
        if at < self._watch.due:
            self._watch.look_at(at)

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task(self.loop)
        if task is not None:
            self._cancelling = task.cancelling()
        watch = self._watch
        watch.waits.add(self)
        if self.at < watch.due:
            watch.look_at(self.at)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._watch.waits.discard(self)
        task, self._task = self._task, None
        if self._expired and task is not None:
            self._expired = False
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def expire(self) -> None:
        if self._task is not None:
            self._expired = True
            self._task.cancel()


@final
class _Watch:
    """Notices the deadlines of one event loop, with a timer for the next of them only. Most are put off before it goes off,
    or their wait is over."""

    def __init__(self) -> None:
        self.waits: set[Deadline] = set()
        self.due = NEVER
        """When the timer goes off."""
        self._timer: asyncio.TimerHandle | None = None

    def look_at(self, at: float) -> None:
        """Not later than this."""
        if self._timer is not None:
            self._timer.cancel()
        self.due = at
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self.due, self._timer = NEVER, None
        now = asyncio.get_running_loop().time()
        for wait in [wait for wait in self.waits if wait.at <= now]:
            self.waits.discard(wait)
            wait.expire()
        following = min([wait.at for wait in self.waits], default=NEVER)
        if following != NEVER:
            self.look_at(following)


_WATCHES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch]] = WeakKeyDictionary()


def _watch_of(loop: asyncio.AbstractEventLoop) -> _Watch:
    watch = _WATCHES.get(loop)
    if watch is None:
        watch = _WATCHES[loop] = _Watch()
    return watch


@final
class WaitLimits(Deadline):
    """The limits of one request. Which one holds depends on how far it has come."""

    def __init__(self, request: WireRequest) -> None:
        super().__init__()
        self.request = request
        self._timeouts = timeouts = request.timeouts
        self._idle = NEVER if timeouts.idle is None else timeouts.idle
        self._end = NEVER if timeouts.total is None else self.loop.time() + timeouts.total
        self._first_byte = NEVER
        self.is_connected = False
        self.begun = False
        """Whether some of the body is here: from then on silence is what counts."""

    def connected(self) -> None:
        """The connection stands: from now on the server is waited for."""
        self.is_connected = True
        seconds: float | None = getattr(self._timeouts, self.request.first_wait)
        if seconds is not None:
            self._first_byte = self.loop.time() + seconds
        self.move(min(self._end, self._first_byte))

    def __enter__(self) -> None:
        self.at = min(self._end, self.loop.time() + self._idle if self.begun else self._first_byte)
        super().__enter__()

    def heard(self) -> None:
        """Something of the body has come during a wait, which goes on: the next silence begins."""
        at = self.loop.time() + self._idle
        at = at if at < self._end else self._end
        if self.begun:  # a silence ends later than the one before it, for which the watch looks
            self.at = at
        else:
            self.begun = True
            self.move(at)

    def too_long(self, what: WaitKind) -> TransportError:
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

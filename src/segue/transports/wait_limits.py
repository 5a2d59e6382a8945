"""How long a request may be waited for: each wait has a limit of its own, and one timer watches them all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from segue.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from segue.transports.transport import WireRequest

Wait: TypeAlias = Literal["connect", "first_byte", "idle", "total"]
_TOO_LONG: Final[Mapping[Wait, str]] = {
    "connect": "No connection to {place} within {seconds:g} s.",
    "first_byte": "{place} accepted the request and sent nothing for {seconds:g} s.",
    "idle": "{place} stopped in the middle of its answer and sent nothing for {seconds:g} s.",
    "total": "{place} did not end its answer within {seconds:g} s.",
}
_NEVER: Final = float("inf")


@final
class WaitLimits:
    """The limits of one request. Which one holds depends on how far it has come.

    `with limits:` around a wait raises TimeoutError when it takes too long. A timer for each wait would cost more than most
    waits: this one stays as it is, and looks at the limit of the moment when it goes off.
    """

    def __init__(self, request: WireRequest) -> None:
        self.request = request
        self._timeouts = timeouts = request.timeouts
        self._loop = asyncio.get_running_loop()
        self._idle = _NEVER if timeouts.idle is None else timeouts.idle
        self._end = _NEVER if timeouts.total is None else self._loop.time() + timeouts.total
        self._first_byte = _NEVER
        self._limit = _NEVER
        self._begun = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False

    def connected(self) -> None:
        """The connection stands: from now on the server is waited for."""
        if self._timeouts.first_byte is not None:
            self._first_byte = self._loop.time() + self._timeouts.first_byte
        if self._task is not None:
            self._watch(min(self._end, self._first_byte))

    def arrived(self) -> None:
        """Some of the body is here: from now on silence is what counts."""
        self._begun = True

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task(self._loop)
        if task is not None:
            self._cancelling = task.cancelling()
        self._watch(min(self._end, self._loop.time() + self._idle if self._begun else self._first_byte))

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

    def too_long(self, what: Wait) -> TransportError:
        if self._loop.time() >= self._end:
            what = "total"
        elif what != "connect":
            what = "idle" if self._begun else "first_byte"
        seconds: float = getattr(self._timeouts, what) or 0.0
        return TransportError(
            _TOO_LONG[what].format(place=self.request.place, seconds=seconds),
            code=f"{what}_timeout",
            hint=f"Try again, or allow more time: timeouts.{what}.",
        )

    def _watch(self, limit: float) -> None:
        self._limit = limit
        if self._timer is not None and self._timer.when() > limit:
            self.close()
        if self._timer is None and limit != _NEVER:
            # Not later than silence would be noticed, so that the first wait for more need not set it anew.
            self._timer = self._loop.call_at(min(limit, self._loop.time() + self._idle), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return  # nobody waits; the next wait sets it anew
        if self._loop.time() < self._limit:
            self._watch(self._limit)
        else:
            self._expired = True
            self._task.cancel()

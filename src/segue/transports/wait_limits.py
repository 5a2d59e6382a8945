"""How long a request may be waited for: each wait has a limit of its own, and one timer watches them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from segue.errors import TransportError
from segue.transports.deadline import NEVER, Deadline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.transports.transport import WireRequest

Wait: TypeAlias = Literal["connect", "first_byte", "idle", "total"]
_TOO_LONG: Final[Mapping[Wait, str]] = {
    "connect": "No connection to {place} within {seconds:g} s.",
    "first_byte": "{place} accepted the request and sent nothing for {seconds:g} s.",
    "idle": "{place} stopped in the middle of its answer and sent nothing for {seconds:g} s.",
    "total": "{place} did not end its answer within {seconds:g} s.",
}


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
        self._begun = False

    def connected(self) -> None:
        """The connection stands: from now on the server is waited for."""
        if self._timeouts.first_byte is not None:
            self._first_byte = self.loop.time() + self._timeouts.first_byte
        self._wait_until(self._first_byte, self.loop.time())

    def arrived(self) -> None:
        """Some of the body is here: from now on silence is what counts."""
        self._begun = True

    def __enter__(self) -> None:
        super().__enter__()
        now = self.loop.time()
        self._wait_until(now + self._idle if self._begun else self._first_byte, now)

    def too_long(self, what: Wait) -> TransportError:
        if self.loop.time() >= self._end:
            what = "total"
        elif what != "connect":
            what = "idle" if self._begun else "first_byte"
        seconds: float = getattr(self._timeouts, what) or 0.0
        return TransportError(
            _TOO_LONG[what].format(place=self.request.place, seconds=seconds),
            code=f"{what}_timeout",
            hint=f"Try again, or allow more time: timeouts.{what}.",
        )

    def _wait_until(self, limit: float, now: float) -> None:
        # Not later than silence would be noticed, so that the first wait for more need not set the timer anew.
        self.move(min(self._end, limit), look_at=now + self._idle)

"""The limits of a request's waits, and the errors of connections, in the words of the system."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from segue.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.transports.transport import Timeouts, WireRequest

_Wait: TypeAlias = Literal["connect", "first_byte", "idle", "total"]
_TOO_LONG: Final[Mapping[_Wait, str]] = {
    "connect": "No connection to {place} within {seconds:g} s.",
    "first_byte": "{place} accepted the request and sent nothing for {seconds:g} s.",
    "idle": "{place} stopped in the middle of its answer and sent nothing for {seconds:g} s.",
    "total": "{place} did not end its answer within {seconds:g} s.",
}


@final
class RequestWaits:
    """The limits of one request. Which one holds depends on how far it has come."""

    def __init__(self, request: WireRequest) -> None:
        self.place = request.place
        self._limits: Timeouts = request.timeouts
        self._loop = asyncio.get_running_loop()
        self._end = _after(self._loop.time(), request.timeouts.total)
        self._first_byte: float | None = None
        self._begun = False

    @property
    def connect(self) -> float | None:
        """Seconds for the connection."""
        left = None if self._end is None else self._end - self._loop.time()
        return _earlier(left, self._limits.connect)

    def connected(self) -> None:
        """The connection stands: from now on the server is waited for."""
        self._first_byte = _after(self._loop.time(), self._limits.first_byte)

    def limit(self) -> float | None:
        """The moment until which more is waited for."""
        limit = _after(self._loop.time(), self._limits.idle) if self._begun else self._first_byte
        return _earlier(self._end, limit)

    def arrived(self) -> None:
        self._begun = True

    def too_long(self, what: _Wait) -> TransportError:
        if self._end is not None and self._loop.time() >= self._end:
            what = "total"
        elif what != "connect":
            what = "idle" if self._begun else "first_byte"
        seconds: float = getattr(self._limits, what) or 0.0
        return TransportError(
            _TOO_LONG[what].format(place=self.place, seconds=seconds),
            code=f"{what}_timeout",
            hint=f"Try again, or allow more time: timeouts.{what}.",
        )


def _after(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now + seconds


def _earlier(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def unreachable(place: str, error: Exception) -> TransportError:
    return TransportError(
        f"Failed to connect to {place}: {_reason(error)}.",
        code="CONNECTION_FAILED",
        hint="Check the address, and that the server runs.",
    )


def broken(place: str, error: Exception) -> TransportError:
    return TransportError(
        f"The connection to {place} broke off: {_reason(error)}.",
        code="connection_broken",
        hint="Try again.",
    )


_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")


def _reason(error: Exception) -> str:
    """Why, in the words of the system: aiohttp's own texts hold the whole address, in which there may be a secret."""
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if number is None and (named := _ERRNO.search(str(cause))) is not None:  # of several addresses
        number = int(named[1])
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    reason = getattr(cause, "strerror", None) or type(cause).__name__
    return str(reason).rstrip(".")

"""A circuit breaker: a member that fails again and again is left alone for a while, then tried with one request.

closed → open when enough failures fall into the window → half open after the recovery time, for one probe. A probe
that succeeds closes it; any failure of one opens it again; an aborted one is given back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated, final

from msgspec import Meta, Struct

if TYPE_CHECKING:
    from segue.routing.statistics import BreakerState


@final
class BreakerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a breaker opens and for how long. Times are seconds."""

    failures: Annotated[int, Meta(ge=0)] = 3
    """0: never."""
    window: Annotated[float, Meta(gt=0)] = 60.0
    recovery: Annotated[float, Meta(ge=0)] = 30.0


class Breaker:
    """Of one member. Every method takes the time, so nothing here looks at a clock."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._failures: deque[float] = deque(maxlen=max(1, settings.failures))
        self._opened: float | None = None
        self._probed: float | None = None

    def state(self, now: float) -> BreakerState:
        if self._opened is None:
            return "closed"
        return "open" if now < self._opened + self._settings.recovery else "half_open"

    def ready_at(self, now: float) -> float:
        """When a request may go out: now, or the time to wait for."""
        if self._opened is None:
            return now
        ready = self._opened + self._settings.recovery
        if self._probed is not None:
            # A probe that never ended, because its session died, must not block for ever.
            ready = max(ready, self._probed + self._settings.recovery)
        return max(now, ready)

    def begin(self, now: float) -> bool:
        """A request goes out; when half open it is the probe. Whether it is."""
        if self.state(now) != "half_open":
            return False
        self._probed = now
        return True

    def succeeded(self) -> None:
        self._failures.clear()
        self._opened = self._probed = None

    def failed(self, now: float) -> None:
        if self._opened is not None:
            self._opened, self._probed = now, None
            return
        self._failures.append(now)
        full = len(self._failures) == self._settings.failures
        if full and now - self._failures[0] <= self._settings.window:
            self._opened = now

    def give_back(self) -> None:
        """The probe ended without telling anything about the member."""
        self._probed = None

"""A member of a router: its route, its record, and why a turn should not go there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, final

from msgspec import Struct, structs

from segue.errors import (
    RouteBusyError,
    RouteError,
    SegueError,
    UsageError,
    retry_after_of,
)
from segue.routing.breaker import Breaker, BreakerSettings
from segue.routing.retry import recovery_for
from segue.routing.router import Skipped, too_small
from segue.routing.statistics import MemberCounters

if TYPE_CHECKING:
    from segue.conversation.usage import Usage
    from segue.routing.route import Facts, MemberFacts, Route
    from segue.routing.router import Need

SkipKind: TypeAlias = Literal[
    "unusable", "resting", "locked_out", "too_small", "lacking", "busy", "limited", "left"
]
"""`left`: this turn has failed there already, perhaps in another process. `locked_out`: it wanted another key or more money, which it may have by now. `lacking`: it takes no images or no
tools and the turn has some, so they would have to be described in words. `busy`: it has all requests that it may have.
`limited`: it has said that a limit is used up, and until when."""

LOCKED_OUT: float = 60.0
"""Seconds for which a member that wants another key or more money is left alone."""
LONGEST_REST: float = 600.0
STALE: float = 600.0
"""Seconds for which a measured latency counts."""
_SMOOTHING = 0.3
_LOCKS = ("log_in", "pay")


@final
class SkipReason(Struct, frozen=True):
    """Why a turn should not go to a member."""

    kind: SkipKind
    error: SegueError
    until: float = 0.0
    """When it is over, where time is what it takes."""
    limit: int = 0


class Member:
    """One of the routes of a router, or a name that leads nowhere with the reason."""

    def __init__(
        self,
        route: Route | None,
        breaker: BreakerSettings,
        *,
        name: str = "",
        weight: float = 1.0,
        unknown: SegueError | None = None,
    ) -> None:
        self.known = route
        self.name = name or (route.name if route is not None else "")
        self.weight = weight
        self.breaker = Breaker(breaker)
        self.counters = MemberCounters()
        self.unknown = unknown or UsageError(
            f'"{self.name}" leads nowhere.', code="unknown_member", hint="Name it as provider/model."
        )
        """Why it leads nowhere, where no route is known."""
        self.asked_at: float | None = None
        self._measured: tuple[float, float] | None = None
        self._rests_until = 0.0
        self._rests_because: SegueError | None = None

    @property
    def route(self) -> Route:
        """Raises why it leads nowhere."""
        if self.known is None:
            raise self.unknown
        return self.known

    def facts(self, facts: Facts) -> MemberFacts:
        """What is known of it; raises what makes it unusable."""
        route = self.route
        known = facts(route)
        return known if route.context is None else structs.replace(known, context=route.context)

    def skip_reason(self, need: Need, facts: Facts, now: float) -> SkipReason | None:
        try:
            known = self.facts(facts)
        except SegueError as error:
            return SkipReason("unusable", error)
        ready = max(self._rests_until, self.breaker.ready_at(now))
        if ready > now:
            locked = self._rests_because is not None and self._rests_because.remedy in _LOCKS
            return SkipReason("locked_out" if locked else "resting", self._resting(ready - now), ready)
        if known.limited > 0:
            limit = RouteBusyError(
                f"Its rate limit is used up for {known.limited:.0f} s.",
                code="limited",
                retry_after=known.limited,
            )
            return SkipReason("limited", limit, now + known.limited)
        if need.tokens is not None and known.context is not None and need.tokens > known.context:
            refusal = too_small(need.tokens, known.context, self.route.model)
            return SkipReason("too_small", refusal, limit=known.context)
        if need.images and not known.images:
            return SkipReason("lacking", RouteError("It cannot see images.", code="no_images"))
        if need.tools and not known.tools:
            return SkipReason("lacking", RouteError("It knows no tools.", code="no_tools"))
        return None

    def begin_turn(self, now: float) -> None:
        """A turn goes there."""
        self.asked_at = now
        self.breaker.begin(now)

    def latency(self, now: float) -> float | None:
        """Seconds to the first token of late; the newest measurements weigh most."""
        return self._measured[0] if self._measured and now - self._measured[1] < STALE else None

    def record_failure(self, error: SegueError, now: float) -> None:
        """Learn from a failure. What is wrong with the request alone says nothing about the member."""
        self.counters.failure(error)
        if recovery_for(error) == "retry":
            self.breaker.failed(now)
        else:
            self.breaker.give_back()

    def rest_after(self, error: SegueError, now: float) -> None:
        """The turn goes elsewhere because of this: let the member rest where it is known for how long."""
        asked = retry_after_of(error)
        if error.remedy in _LOCKS:
            asked = max(asked or 0.0, LOCKED_OUT)
        if asked is not None:
            self._rests_until = max(self._rests_until, now + min(asked, LONGEST_REST))
            self._rests_because = error

    def record_success(
        self,
        usage: Usage,
        first_token_seconds: float | None,
        seconds: float | None,
        cost: float | None,
        now: float,
    ) -> None:
        self.counters.success(usage, first_token_seconds, seconds, cost)
        self.breaker.succeeded()
        if first_token_seconds is not None:
            known = self.latency(now)
            change = 0.0 if known is None else (1 - _SMOOTHING) * (known - first_token_seconds)
            self._measured = first_token_seconds + change, now
        self._rests_until, self._rests_because = 0.0, None

    def _resting(self, seconds: float) -> RouteBusyError:
        cause = self._rests_because or self.counters.last_error
        why = f": {cause.message}" if cause is not None else "."
        resting = RouteBusyError(
            f"It is left alone for {seconds:.0f} s after it failed{why}", code="resting", retry_after=seconds
        )
        resting.__cause__ = cause
        return resting

    def skipped(self, reason: SkipReason) -> Skipped:
        return Skipped(self.name, reason.error.message, self.known, reason.error.code)

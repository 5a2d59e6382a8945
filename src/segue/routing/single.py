"""A router of one route. There is nobody else to ask, so it never rests, and its errors come through as they are."""

from __future__ import annotations

from random import Random
from threading import Lock
from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.errors import SegueError
from segue.routing.retry import RetrySettings, pause_before, recovery_for
from segue.routing.route import Route
from segue.routing.router import GiveUp, Need, NextStep, Retry, Routing, Skipped, too_small
from segue.routing.statistics import MemberCounters

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.usage import Usage
    from segue.routing.route import Facts
    from segue.routing.statistics import MemberStatistics


class SingleRouter:
    """Asks its route again after a failure that may pass."""

    def __init__(
        self,
        route: Route,
        facts: Facts,
        *,
        retry: RetrySettings | None = None,
        random: Callable[[], float] | None = None,
    ) -> None:
        self.name = route.name
        self.routes = (route,)
        self.retry = retry or RetrySettings()
        self.random = random or Random().random  # noqa: S311 - spreads requests, guards nothing
        self.counters = MemberCounters()
        self.lock = Lock()
        self._facts = facts

    @property
    def context_limit(self) -> int | None:
        (route,) = self.routes
        try:
            known = self._facts(route).context
        except SegueError:
            return None
        return known if route.context is None else route.context

    def open(self, need: Need, *, prefer: str = "") -> Routing:
        del prefer
        (route,) = self.routes
        self._facts(route)  # raises why the route cannot be used
        if need.tokens is not None and (window := self.context_limit) is not None and need.tokens > window:
            raise too_small(need.tokens, window, route.model)
        return SingleRouting(self, route)

    def statistics(self) -> tuple[MemberStatistics, ...]:
        unusable = ""
        try:
            self._facts(self.routes[0])
        except SegueError as error:
            unusable = str(error)
        with self.lock:
            return (self.counters.snapshot(self.name, "closed", unusable),)


@final
class SingleRouting(Struct):
    """The way of one turn: it never leaves its route."""

    router: SingleRouter
    route: Route
    skipped: tuple[Skipped, ...] = ()
    attempts: int = 0
    """Since the last answer."""
    waited: float = 0.0

    def failed(self, error: SegueError, *, shown: bool, ran: bool) -> NextStep:
        del ran
        with self.router.lock:
            self.router.counters.failure(error)
        self.attempts += 1
        if shown or recovery_for(error) != "retry":
            return GiveUp(error)
        pause = pause_before(self.attempts, error, self.waited, self.router.retry, self.router.random)
        if pause is None:
            return GiveUp(error)
        self.waited += pause
        return Retry(pause)

    def answered(
        self,
        usage: Usage,
        first_token_seconds: float | None = None,
        *,
        seconds: float | None = None,
        cost: float | None = None,
    ) -> None:
        with self.router.lock:
            self.router.counters.success(usage, first_token_seconds, seconds, cost)
        self.attempts, self.waited = 0, 0.0

    def continuation(self) -> None:
        """There is nobody who could continue."""

    def aborted(self) -> None:
        with self.router.lock:
            self.router.counters.abort()

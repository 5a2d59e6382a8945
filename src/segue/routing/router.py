"""Who answers a turn, as decisions without any waiting or sending; and the router of a single route.

A `Router` opens one `Routing` per turn. The routing names the route to use now and decides after each exchange
what to do next: ask again after a pause, go to another member, or give up. Clock and chance are passed in.
"""

from __future__ import annotations

from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeAlias, final

from msgspec import Struct

from segue.errors import RouteTooSmallError, SegueError
from segue.routing.retry import RetrySettings, pause_before, recovery_for
from segue.routing.route import Route, parse_route
from segue.routing.statistics import MemberCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from segue.conversation.usage import Usage
    from segue.routing.route import Facts
    from segue.routing.statistics import MemberStatistics


@final
class Need(Struct, frozen=True, kw_only=True):
    """What a turn asks of a member."""

    tokens: int | None = None
    """Estimate of the request; None if it is far below every window that is known, and was not counted."""
    images: bool = False
    tools: bool = False


@final
class Skipped(Struct, frozen=True):
    """A member that was not even asked, and why. `route` is missing where its name leads nowhere."""

    name: str
    reason: str
    route: Route | None = None
    code: str = ""


@final
class Retry(Struct, frozen=True):
    """Ask the same route again, after so many seconds."""

    after: float


@final
class GoTo(Struct, frozen=True):
    """Ask this route now."""

    route: Route


@final
class GiveUp(Struct, frozen=True):
    """The turn ends with this error."""

    error: SegueError


NextStep: TypeAlias = Retry | GoTo | GiveUp
"""What follows a failure."""


class Routing(Protocol):
    """The way of one turn. All its exchanges go to `route`."""

    @property
    def route(self) -> Route: ...

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Members that were passed over so far, with the reason."""
        ...

    def failed(self, error: SegueError, *, shown: bool, ran: bool) -> NextStep:
        """An exchange failed. `shown`: some of its output was; `ran`: a call of this turn has run.

        Where the remedy is to shrink, shrink and ask again; report it here only if that did not help.
        """
        ...

    def answered(
        self,
        usage: Usage,
        first_token_seconds: float | None = None,
        *,
        seconds: float | None = None,
        cost: float | None = None,
    ) -> None:
        """An exchange succeeded: from now on the turn stays where it is."""
        ...

    def continuation(self) -> Routing | None:
        """The way of a new turn that continues this one, which has failed, at the next member; None if there is none."""
        ...

    def aborted(self) -> None:
        """The user stopped an exchange. This is no failure of a member."""
        ...


class Router(Protocol):
    """Chooses where each turn goes. Many sessions may share one."""

    @property
    def name(self) -> str: ...

    @property
    def routes(self) -> tuple[Route, ...]:
        """Every member that can be reached by name."""
        ...

    @property
    def context_limit(self) -> int | None:
        """What fits into every member, so that any of them can take the conversation over."""
        ...

    def open(self, need: Need, *, prefer: str = "", left: Collection[str] = ()) -> Routing:
        """Begin a turn. Raises RouteError with all reasons when no member can take it.

        `prefer`: the name of the route to try first if it can take the turn, whatever the policy. `left`: the names of routes
        that this turn has failed at, in whichever process: it does not go there again.
        Its remedy is `shrink` (RouteTooSmallError, with the `limit` to shrink to) when only the size is the problem.
        """
        ...

    def statistics(self) -> tuple[MemberStatistics, ...]: ...


def too_small(tokens: int, limit: int, model: str) -> RouteTooSmallError:
    return RouteTooSmallError(
        f"Request exceeds token limit: {tokens} > {limit} for model {model}", limit=limit
    )


class SingleRouter:
    """Asks its route again after a failure that may pass.

    There is no other member to ask, so it never rests, and its errors are raised unchanged.
    """

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

    def open(self, need: Need, *, prefer: str = "", left: Collection[str] = ()) -> Routing:
        del prefer, left
        (route,) = self.routes
        self._facts(route)  # raises why the route cannot be used
        if need.tokens is not None and (window := self.context_limit) is not None and need.tokens > window:
            raise too_small(need.tokens, window, route.model)
        return SingleRouting(self, route)

    def statistics(self) -> tuple[MemberStatistics, ...]:
        unusable, limited = "", 0.0
        try:
            limited = self._facts(self.routes[0]).limited
        except SegueError as error:
            unusable = str(error)
        with self.lock:
            return (self.counters.snapshot(self.name, "closed", unusable, limited),)


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
        retry, random = self.router.retry, self.router.random
        pause = pause_before(self.attempts, error, self.waited, retry, random, alone=True)
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


Model: TypeAlias = str | Route | Router
"""`provider/model`, a route, or a router that chooses one for each turn."""


def router_for(model: Model, facts: Facts) -> Router:
    """Raises where a name is malformed."""
    route = parse_route(model) if isinstance(model, str) else model
    return SingleRouter(route, facts) if isinstance(route, Route) else route

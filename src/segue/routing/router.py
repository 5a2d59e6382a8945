"""Which member answers a turn, as decisions without any waiting or sending.

A `Router` opens one `Routing` per turn. The routing names the route to use now and decides after each exchange
what to do next: ask again after a pause, go to another member, or give up. Clock and chance are passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, final

from msgspec import Struct

from segue.errors import RouteTooSmallError, SegueError
from segue.routing.route import Route

if TYPE_CHECKING:
    from segue.conversation.usage import Usage
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
        """The user stopped an exchange: nobody's failure."""
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

    def open(self, need: Need, *, prefer: str = "") -> Routing:
        """Begin a turn. Raises RouteError with all reasons when no member can take it.

        `prefer`: the name of the route to try first if it can take the turn, whatever the policy.
        Its remedy is `shrink` (RouteTooSmallError, with the `limit` to shrink to) when only size stands in the way.
        """
        ...

    def statistics(self) -> tuple[MemberStatistics, ...]: ...


def too_small(tokens: int, limit: int, model: str) -> RouteTooSmallError:
    return RouteTooSmallError(
        f"Request exceeds token limit: {tokens} > {limit} for model {model}", limit=limit
    )

"""What became of the requests to each member of a router, counted as they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, final

from msgspec import Struct

from segue.errors import SegueError
from segue.routing.retry import is_timeout

if TYPE_CHECKING:
    from segue.conversation.usage import Usage

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


@final
class MemberStatistics(Struct, frozen=True, kw_only=True):
    """One member so far. Every request ended in a success, a failure or an abort."""

    name: str
    requests: int = 0
    successes: int = 0
    failures: int = 0
    timeouts: int = 0
    """Of the failures."""
    aborts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    first_token_seconds: float | None = None
    """On average, where it was measured."""
    seconds: float | None = None
    """Of a whole reply, on average, where it was measured."""
    cost: float | None = None
    """Dollars, as far as prices are known."""
    breaker: BreakerState = "closed"
    last_error: str = ""
    unusable: str = ""
    """Why the member cannot be used at all, if so."""
    limited: float = 0.0
    """Seconds until a limit of its provider is whole again that is used up now."""


class MemberCounters(Struct):
    """The counters of one member."""

    successes: int = 0
    failures: int = 0
    timeouts: int = 0
    aborts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    last_error: SegueError | None = None
    first_token: tuple[float, int] = (0.0, 0)
    """Seconds in sum, and how many were measured."""
    whole: tuple[float, int] = (0.0, 0)

    def success(
        self, usage: Usage, first_token: float | None, seconds: float | None, cost: float | None
    ) -> None:
        self.successes += 1
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost
        self.first_token = _added(self.first_token, first_token)
        self.whole = _added(self.whole, seconds)

    def failure(self, error: SegueError) -> None:
        self.failures += 1
        self.timeouts += is_timeout(error)
        self.last_error = error

    def abort(self) -> None:
        self.aborts += 1

    def snapshot(
        self, name: str, breaker: BreakerState, unusable: str = "", limited: float = 0.0
    ) -> MemberStatistics:
        return MemberStatistics(
            name=name,
            requests=self.successes + self.failures + self.aborts,
            successes=self.successes,
            failures=self.failures,
            timeouts=self.timeouts,
            aborts=self.aborts,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            first_token_seconds=_average(self.first_token),
            seconds=_average(self.whole),
            cost=self.cost,
            breaker=breaker,
            last_error="" if self.last_error is None else self.last_error.message,
            unusable=unusable,
            limited=limited,
        )


def _added(measured: tuple[float, int], value: float | None) -> tuple[float, int]:
    return measured if value is None else (measured[0] + value, measured[1] + 1)


def _average(measured: tuple[float, int]) -> float | None:
    return measured[0] / measured[1] if measured[1] else None

"""What became of the requests to each member of a router, counted as they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, final

from msgspec import Struct

from segue.routing.retry import is_timeout

if TYPE_CHECKING:
    from segue.conversation.usage import Usage
    from segue.errors import SegueError

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


class MemberCounters:
    """The counters of one member."""

    def __init__(self) -> None:
        self.successes = self.failures = self.timeouts = self.aborts = 0
        self.input_tokens = self.output_tokens = 0
        self.cost: float | None = None
        self.last_error: SegueError | None = None
        self._first_token = _Average()
        self._whole = _Average()

    def success(
        self, usage: Usage, first_token: float | None, seconds: float | None, cost: float | None
    ) -> None:
        self.successes += 1
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost
        self._first_token.add(first_token)
        self._whole.add(seconds)

    def failure(self, error: SegueError) -> None:
        self.failures += 1
        self.timeouts += is_timeout(error)
        self.last_error = error

    def abort(self) -> None:
        self.aborts += 1

    def snapshot(self, name: str, breaker: BreakerState, unusable: str = "") -> MemberStatistics:
        return MemberStatistics(
            name=name,
            requests=self.successes + self.failures + self.aborts,
            successes=self.successes,
            failures=self.failures,
            timeouts=self.timeouts,
            aborts=self.aborts,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            first_token_seconds=self._first_token.value,
            seconds=self._whole.value,
            cost=self.cost,
            breaker=breaker,
            last_error="" if self.last_error is None else self.last_error.message,
            unusable=unusable,
        )


class _Average:
    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self._sum += value
            self._count += 1

    @property
    def value(self) -> float | None:
        return self._sum / self._count if self._count else None

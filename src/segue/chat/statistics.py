"""What became of the requests to each member of a router, counted as they end."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from msgspec import Struct

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

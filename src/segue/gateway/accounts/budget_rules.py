"""Whether a request may be sent, by what its account may use and has used. Pure: stores do it inside a transaction.

Money counts in millionths of a dollar. What a request may cost is reserved before it is sent and settled afterwards, so
that requests which run at the same time cannot spend the same money.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, final

from msgspec import Struct, structs

from segue.gateway.accounts import rate_limit

if TYPE_CHECKING:
    from segue.config.schema import Allowance

MILLION: Final = 1_000_000
DAY: Final = 86_400.0
_MOST_MICROS: Final = 2.0**53
BLOCK_SHARE: Final = 50
"""A block of requests takes at most this part of what is left of each limit. So near a limit every request is admitted by
itself, and what a process holds and does not use is little."""
Limit: TypeAlias = Literal["requests", "tokens", "concurrent", "reserved", "day", "month"]
"""`reserved`: what is left of a budget may be needed by requests that run."""


@final
class Standing(Struct, frozen=True):
    """What an account has used, as far as its limits need it."""

    requests_due: float = 0.0
    tokens_due: float = 0.0
    """See rate_limit."""
    day: str = ""
    day_spent: int = 0
    month: str = ""
    month_spent: int = 0
    seen: float = 0.0
    """The latest moment at which it was looked at, by the clock of that moment."""
    set_back_from: str = ""
    """The day of which this is, if the clock was set back by days since then."""


@final
class Reserved(Struct, frozen=True):
    """What the account's running requests hold together."""

    requests: int = 0
    micros: int = 0
    expired: int = 0
    """Millionths of requests whose gateway died. They may have been served, so they count as spent."""


@final
class Charge(Struct, frozen=True):
    """What a request may come to."""

    tokens: int = 0
    micros: int = 0


@final
class Refusal(Struct, frozen=True):
    """The limit that is reached, and for how many seconds at least."""

    limit: Limit
    wait: float


def admit(
    allowance: Allowance, standing: Standing, reserved: Reserved, estimate: Charge, now: float
) -> Standing | Refusal:
    """The account's standing with this request, or what it would go beyond.

    Money: a request may be sent while some is left that no other request has reserved. If none runs, one may be dearer
    than what is left, so that an account is over its limit by one request at most.
    """
    standing = spend(standing, reserved.expired, now)
    if allowance.concurrent is not None and reserved.requests >= allowance.concurrent:
        return refusal("concurrent", 0.0, now)
    for budget in _budgets(allowance, standing, now):
        left = budget.micros - budget.spent - reserved.micros
        if left <= 0 or (reserved.requests and estimate.micros > left):
            return refusal("reserved" if budget.spent < budget.micros else budget.window, 0.0, now)
    requests = tokens = None
    if allowance.requests_per_minute is not None:
        requests = rate_limit.take(standing.requests_due, now, 1, allowance.requests_per_minute)
        if requests.wait:
            return Refusal("requests", requests.wait)
    if allowance.tokens_per_minute is not None:
        tokens = rate_limit.take(standing.tokens_due, now, estimate.tokens, allowance.tokens_per_minute)
        if tokens.wait:
            return Refusal("tokens", tokens.wait)
    return structs.replace(
        standing,
        requests_due=requests.due if requests is not None else standing.requests_due,
        tokens_due=tokens.due if tokens is not None else standing.tokens_due,
    )


def admit_more(
    allowance: Allowance, standing: Standing, reserved: Reserved, estimate: Charge, now: float, wanted: int
) -> tuple[Standing, int]:
    """The standing with so many more requests like the one that was just admitted, and how many they are: as many as are
    wanted and are a small part of what is left. `reserved` is without that one."""
    requests, tokens = allowance.requests_per_minute, allowance.tokens_per_minute
    more = wanted
    if allowance.concurrent is not None:
        more = min(more, (allowance.concurrent - reserved.requests - 1) // BLOCK_SHARE)
    for budget in _budgets(allowance, standing, now) if estimate.micros else ():
        left = budget.micros - budget.spent - reserved.micros - estimate.micros
        more = min(more, left // (BLOCK_SHARE * estimate.micros))
    if requests is not None:
        more = min(more, rate_limit.parts(standing.requests_due, now, BLOCK_SHARE, requests))
    if tokens is not None and estimate.tokens:
        more = min(more, rate_limit.parts(standing.tokens_due, now, BLOCK_SHARE * estimate.tokens, tokens))
    if more <= 0:
        return standing, 0
    requests_due, tokens_due = standing.requests_due, standing.tokens_due
    if requests is not None:
        requests_due = rate_limit.give_back(requests_due, -more, requests)
    if tokens is not None:
        tokens_due = rate_limit.give_back(tokens_due, -more * estimate.tokens, tokens)
    return structs.replace(standing, requests_due=requests_due, tokens_due=tokens_due), more


def refusal(limit: Limit, wait: float, now: float) -> Refusal:
    """`wait` is that of a rate. What others have reserved may be given back any moment; what is spent stays spent until the
    day or month ends."""
    today = _day_of(now // DAY)
    match limit:
        case "requests" | "tokens":
            return Refusal(limit, wait)
        case "concurrent" | "reserved":
            return Refusal(limit, 1.0)
        case "day":
            return Refusal(limit, today.end - now)
        case "month":
            return Refusal(limit, today.month_end - now)


class _Budget(NamedTuple):
    window: Literal["day", "month"]
    micros: int
    spent: int
    end: float


def _budgets(allowance: Allowance, standing: Standing, now: float) -> list[_Budget]:
    today = _day_of(now // DAY)
    budgets: list[_Budget] = []
    if allowance.dollars_per_day is not None:
        day = micros(allowance.dollars_per_day)
        budgets.append(_Budget("day", day, standing.day_spent, today.end))
    if allowance.dollars_per_month is not None:
        month = micros(allowance.dollars_per_month)
        budgets.append(_Budget("month", month, standing.month_spent, today.month_end))
    return budgets


def budget_share(
    allowance: Allowance, standing: Standing, reserved: int, now: float
) -> tuple[float | None, float]:
    """The part of the fuller budget that is spent or reserved, and the moment when it is whole again; None without one."""
    budgets = _budgets(allowance, current(standing, now), now)
    shares = [((each.spent + reserved) / each.micros, each.end) for each in budgets]
    return max(shares, default=(None, 0.0))


def is_far_from_limits(
    allowance: Allowance, standing: Standing, reserved: Reserved, estimate: Charge, now: float
) -> bool:
    """Whether less than half of every limit is used, so that nobody is refused if this request is settled a moment later."""
    if allowance.concurrent is not None and 2 * (reserved.requests + 1) >= allowance.concurrent:
        return False
    for due, limit in (
        (standing.requests_due, allowance.requests_per_minute),
        (standing.tokens_due, allowance.tokens_per_minute),
    ):
        if limit is not None and 2 * (due - now) >= rate_limit.MINUTE:
            return False
    share, _ = budget_share(allowance, standing, reserved.micros + estimate.micros, now)
    return share is None or 2 * share < 1


def settle(
    allowance: Allowance,
    standing: Standing,
    estimate: Charge,
    used: Charge,
    now: float,
    *,
    spent_already: bool = False,
) -> Standing:
    """The standing after a request that came to `used` where `estimate` had been reserved, or even counts as spent because
    nothing was known of the request for too long."""
    standing = spend(standing, used.micros - (estimate.micros if spent_already else 0), now)
    tokens_due = standing.tokens_due
    if allowance.tokens_per_minute is not None:
        tokens_due = rate_limit.give_back(
            tokens_due, estimate.tokens - used.tokens, allowance.tokens_per_minute
        )
    return structs.replace(standing, tokens_due=tokens_due)


def spend(standing: Standing, micros: int, now: float) -> Standing:
    """With so much more spent in this day and month."""
    standing = current(standing, now)
    if not micros:
        return standing
    return structs.replace(
        standing,
        day_spent=max(0, standing.day_spent + micros),
        month_spent=max(0, standing.month_spent + micros),
    )


def current(standing: Standing, now: float) -> Standing:
    """With nothing spent in a day or month that has just begun. Days are those of UTC.

    A clock that is set back gives nobody their money again, and keeps nobody waiting for the moments that it came from: a day
    that has begun stays, and what is due comes as much earlier. Of a clock that was days ahead, what was spent counts today;
    and when it is right again, the day that it came from is no new one.
    """
    standing = _by_this_clock(standing, now)
    today = _day_of(now // DAY)
    if today.name <= standing.day <= _day_of(now // DAY + 1).name:
        return standing
    if standing.day > today.name:
        came_from = max(standing.day, standing.set_back_from)
        return structs.replace(standing, day=today.name, month=today.month, set_back_from=came_from)
    months = standing.month, standing.set_back_from[:7]
    return structs.replace(
        standing,
        day=today.name,
        day_spent=standing.day_spent if standing.set_back_from == today.name else 0,
        month=today.month,
        month_spent=standing.month_spent if today.month in months else 0,
        set_back_from="",
    )


def is_set_back(standing: Standing, now: float) -> bool:
    """Whether the clock was ahead when this was kept. Then it is kept anew by the clock of now, also if a request is refused:
    else time would stand still until that moment."""
    return standing.seen - now > rate_limit.MINUTE or standing.day > _day_of(now // DAY + 1).name


def _by_this_clock(standing: Standing, now: float) -> Standing:
    back = standing.seen - now
    if back <= rate_limit.MINUTE:  # some of it is processes that take turns
        return structs.replace(standing, seen=now) if back < 0 else standing
    return structs.replace(
        standing,
        seen=now,
        requests_due=standing.requests_due - back,
        tokens_due=standing.tokens_due - back,
    )


def micros(dollars: float) -> int:
    """At most so many that every store can add them up."""
    return math.ceil(min(dollars * MILLION, _MOST_MICROS))


def micros_of(limit: float | None) -> int | None:
    """None: there is no limit."""
    return None if limit is None else micros(limit)


class _Day(NamedTuple):
    name: str
    end: float
    month: str
    month_end: float


@lru_cache(4)
def _day_of(number: float) -> _Day:
    """The so many-th day of UTC since 1970."""
    day = datetime.fromtimestamp(number * DAY, UTC)
    next_month = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return _Day(
        name=day.strftime("%Y-%m-%d"),
        end=(number + 1) * DAY,
        month=day.strftime("%Y-%m"),
        month_end=next_month.timestamp(),
    )

"""Looks at a gateway: what its callers have spent, which members of its profiles rest, whether its stores answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from segue.errors import JournalError, SegueError
from segue.gateway.accounts.budget_rules import MILLION
from segue.gateway.telemetry.alerts import BudgetUse, Observation

if TYPE_CHECKING:
    from collections.abc import Collection

    from segue.gateway.app import Gateway


async def observe(gateway: Gateway, callers: Collection[str]) -> Observation:
    """`callers`: those that have sent requests since the last look."""
    missing = await gateway.readiness.missing_stores()
    budgets = [use for name in sorted(callers) for use in await _budgets(gateway, name)]
    return Observation(
        budgets=tuple(budgets),
        routes=_resting(gateway),
        stores={name: name not in missing for name in gateway.readiness.stores},
    )


async def _budgets(gateway: Gateway, caller: str) -> list[BudgetUse]:
    try:
        allowance, standing = await gateway.accounts.spent(caller)
    except JournalError:  # that the store does not answer is an alert of its own
        return []
    found: list[BudgetUse] = []
    windows: tuple[tuple[Literal["day", "month"], str, int, float | None], ...] = (
        ("day", standing.day, standing.day_spent, allowance.dollars_per_day),
        ("month", standing.month, standing.month_spent, allowance.dollars_per_month),
    )
    for window, began, spent, limit in windows:
        if limit is not None:
            found.append(
                BudgetUse(caller=caller, window=window, began=began, spent=spent / MILLION, limit=limit)
            )
    return found


def _resting(gateway: Gateway) -> dict[str, str]:
    """Members of all profiles. One that rests in any of them counts as resting."""
    found: dict[str, str] = {}
    for profile in gateway.config.profiles:
        try:
            members = gateway.names.router(profile).statistics()
        except SegueError:  # a profile that leads nowhere is an error of its requests
            continue
        for member in members:
            rests = member.breaker != "closed"
            found[member.name] = (member.last_error or "unknown") if rests else found.get(member.name, "")
    return found

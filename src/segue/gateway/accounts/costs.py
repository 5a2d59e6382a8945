"""What a request may cost before it is sent, and what it came to."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import structs

from segue.conversation.json_safe import storable
from segue.conversation.usage import Usage
from segue.dialects.server_side.wire_server import CallerStanding, RateStanding
from segue.errors import InvalidRequestError, QuotaError
from segue.exchange.handovers import sum_of
from segue.gateway.accounts import rate_limit
from segue.gateway.accounts.budget_rules import Charge, budget_share, micros
from segue.gateway.accounts.store import UsageRow, add_usage
from segue.gateway.conversations.turns import model_of, read_fields
from segue.gateway.exchanges.usage_estimates import BYTES_PER_TOKEN, input_estimate
from segue.gateway.requests.client_errors import model_error
from segue.gateway.telemetry.report import Expense

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from segue.gateway.accounts.account import Account
    from segue.gateway.accounts.register import Accounts
    from segue.gateway.accounts.store import Admission
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.doors.paths import Door
    from segue.gateway.names import ModelNames
    from segue.gateway.requests.web import WebRequest
    from segue.gateway.telemetry.report import RequestReport
    from segue.providers.models.prices import PriceBook
    from segue.routing.route import Route

_SERVICES: Final = frozenset({"embed", "complete", "count_tokens", "compact", "cache_content"})
ASKS_A_MODEL: Final = _SERVICES | {"chat", "generate"}
"""The operations that count for a caller's limits."""
USUAL_OUTPUT: Final = 1000
"""Tokens of a reply. Clients allow for far more than they get."""


def admit(
    accounts: Accounts, account: Account, turn: ClientTurn, names: ModelNames, routes: Sequence[Route]
) -> Awaitable[tuple[Admission | None, Charge]]:
    """What is reserved for a turn, and what it may come to. Raises what the caller may not. Follow it with `settle`. `routes`:
    who may answer, perhaps since an operator has chosen so."""
    return _admit(accounts, account, turn.asked, names, routes, lambda: estimated_usage(turn))


def settle(accounts: Accounts, admission: Admission | None, expected: Charge, report: RequestReport) -> None:
    """Count what a request came to, however it ended: all that was handed to providers for it."""
    handovers = [one for tried in report.tries for one in tried.handovers]
    report.expenses = tuple(_expense(accounts.prices, one.route, one.usage) for one in handovers)
    report.usage = sum_of(one.usage for one in report.expenses)
    report.usage_estimated = any(one.estimated for one in handovers)
    priced = [one.dollars for one in report.expenses if one.dollars is not None]
    report.dollars = sum(priced) if priced else None
    spent = [_micros(accounts.prices, one, expected) for one in report.expenses]
    came_to = Charge(report.usage.total_tokens or 0, sum(spent))
    accounts.ended(admission, came_to, *_usage_rows(report, spent))


def _expense(prices: PriceBook, route: str, usage: Usage) -> Expense:
    provider, _, model = route.partition("/")
    return Expense(route, usage, prices.cost_of(usage, provider, model))


def _micros(prices: PriceBook, expense: Expense, expected: Charge) -> int:
    """Where nobody knows the price, what was reserved, or what is known of it if that is more. Callers with budgets are let
    through to a model without a price only to end a turn that began there."""
    if expense.usage.total_tokens is None:
        return 0
    if expense.dollars is not None:
        return micros(expense.dollars)
    provider, _, model = expense.route.partition("/")
    return max(expected.micros, micros(prices.least_cost(expense.usage, provider, model)))


@asynccontextmanager
async def counted_service(
    accounts: Accounts,
    account: Account,
    names: ModelNames,
    door: Door,
    request: WebRequest,
    report: RequestReport,
) -> AsyncIterator[None]:
    """Serve what is no reply of a model but asks one, such as vectors, as far as its caller may have it, and count it."""
    if door.operation not in _SERVICES:
        yield
        return
    report.asked = model_of(door, read_fields(request.body))
    routes = names.router(report.asked).routes
    # To count tokens is free at every provider.
    tokens = len(request.body) // BYTES_PER_TOKEN if door.operation != "count_tokens" else 0
    usage = Usage(input_tokens=tokens, output_tokens=0)
    admission, expected = await _admit(accounts, account, report.asked, names, routes, lambda: usage)
    try:
        yield
    finally:
        report.route = report.route or routes[0].name
        settle(accounts, admission, expected, report)


@asynccontextmanager
async def counted_for_nothing(
    accounts: Accounts, account: Account, report: RequestReport
) -> AsyncIterator[None]:
    """Serve what costs nothing but the work of the gateway, as far as the limits of its caller allow one more request."""
    admission = await accounts.admit(account, Charge()) if account.is_limited else None
    try:
        yield
    finally:
        if admission is not None:
            accounts.ended(admission, Charge(), *_usage_rows(report, []))


@asynccontextmanager
async def affordable(
    accounts: Accounts, account: Account, expected: Sequence[tuple[str, int]]
) -> AsyncIterator[None]:
    """Hand over what is paid when its results come: routes and tokens of the input. Raises if its caller could not pay it now."""
    if not account.is_limited:
        yield
        return
    dollars = 0.0
    for route, tokens in expected:
        provider, _, model = route.partition("/")
        usage = Usage(input_tokens=tokens, output_tokens=0, tier="batch")
        dollars += accounts.prices.least_cost(usage, provider, model)
    # Tokens of a batch do not come in a minute: no rate limits them.
    admission = await accounts.admit(account, Charge(0, micros(dollars)))
    try:
        if admission is not None:
            spent = admission.reserved.micros + micros(dollars)
            share, _ = budget_share(account.allowance, admission.standing, spent, time.time())
            if share is not None and share > 1:
                raise QuotaError(
                    f"The caller {account.name} has no budget for a batch of at least ${dollars:.2g}.",
                    code="budget_spent",
                    hint="Send a smaller batch, or have the budget raised.",
                )
        yield
    finally:
        if admission is not None:
            accounts.ended(admission, Charge())


@asynccontextmanager
async def charged_results(
    accounts: Accounts, account: Account, report: RequestReport, used: Sequence[tuple[str, Usage]]
) -> AsyncIterator[None]:
    """Count the replies of a batch, each with its route, if what is done within succeeds. Raises if the caller has to wait."""
    admission = await accounts.admit(account, Charge()) if account.is_limited else None
    expenses: dict[str, Expense] = {}
    spent: dict[str, int] = {}
    for route, usage in used:
        one, known = _expense(accounts.prices, route, usage), expenses.get(route)
        spent[route] = spent.get(route, 0) + _micros(accounts.prices, one, Charge())
        if known is not None:
            dollars = (
                None if None in (known.dollars, one.dollars) else (known.dollars or 0) + (one.dollars or 0)
            )
            one = Expense(route, known.usage.plus(usage), dollars)
        expenses[route] = one
    counted = False
    try:
        yield
        counted = True
    finally:
        rows: list[UsageRow] = []
        came_to = Charge()
        if counted:
            report.expenses = tuple(expenses.values())
            report.usage = sum_of(one.usage for one in report.expenses)
            priced = [one.dollars for one in report.expenses if one.dollars is not None]
            report.dollars = sum(priced) if priced else None
            rows = _usage_rows(report, [spent[one.route] for one in report.expenses])
            came_to = Charge(0, sum(spent.values()))
        if admission is not None or rows:
            accounts.ended(admission, came_to, *rows)


def standing_of(admission: Admission) -> CallerStanding:
    """How far the caller's limits are used up, for the headers of its wire."""
    allowance, standing, now = admission.account.allowance, admission.standing, time.time()
    requests, tokens = allowance.requests_per_minute, allowance.tokens_per_minute
    spent = admission.reserved.micros + admission.estimate.micros
    share, end = budget_share(allowance, standing, spent, now)
    return CallerStanding(
        requests=_rate(requests, standing.requests_due, now),
        tokens=_rate(tokens, standing.tokens_due, now),
        budget_share=share,
        budget_reset=end,
    )


def _rate(per_minute: int | None, due: float, now: float) -> RateStanding | None:
    if per_minute is None:
        return None
    return RateStanding(per_minute, rate_limit.left(due, now, per_minute), max(0.0, due - now))


async def _admit(
    accounts: Accounts,
    account: Account,
    asked: str,
    names: ModelNames,
    routes: Sequence[Route],
    usage: Callable[[], Usage],
) -> tuple[Admission | None, Charge]:
    """What is reserved for a request, and what it may come to; nothing of both where nothing is limited."""
    # What the caller asks for has to be allowed. A switch was allowed when it was made, or is the operator's own.
    if account.allowance.models and not account.may_use(asked, names.led_to(asked)):
        raise model_error(account, asked)
    if not account.is_limited:
        return None, Charge()
    expected = _estimate(accounts.prices, account, usage(), routes)
    return await accounts.admit(account, expected), expected


def estimated_usage(turn: ClientTurn) -> Usage:
    """A rough count, before anything is sent."""
    written = min(turn.options.max_tokens or USUAL_OUTPUT, USUAL_OUTPUT)
    return Usage(input_tokens=input_estimate(turn), output_tokens=written)


def _estimate(prices: PriceBook, account: Account, usage: Usage, routes: Sequence[Route]) -> Charge:
    """What is reserved: for the dearest of the models that may answer. Raises if the account has a budget and nobody knows what
    one of them costs."""
    limits, dearest = account.allowance, 0.0
    has_budget = limits.dollars_per_day is not None or limits.dollars_per_month is not None
    for route in routes if has_budget else routes[:1]:
        dollars = prices.cost_of(usage, route.provider, route.model)
        if dollars is None and has_budget:
            raise InvalidRequestError(
                f"The price of {route.name} is not known, and this caller has a budget. {_how_to_price(route)}",
                code="unpriced_model",
                path="model",
                status=403,
            )
        dearest = max(dearest, dollars or 0.0)
    return Charge(usage.total_tokens or 0, micros(dearest))


def _how_to_price(route: Route) -> str:
    """The line to add. In the message, for clients are not sent hints."""
    name = json.dumps(route.name)
    return (
        "Ask for a model with a known price, or ask the operator of the gateway to add one of these lines to [prices] in its "
        f'configuration: {name} = {{ like = "openai/gpt-4o" }}, {name} = {{ input = 2.5, output = 10 }}, or {name} = 0 '
        "for a server of its own."
    )


@lru_cache(maxsize=2)
def _day(number: int) -> str:
    """By its number since 1970."""
    return time.strftime("%Y-%m-%d", time.gmtime(number * 86_400))


def _usage_rows(report: RequestReport, spent_micros: Sequence[int]) -> list[UsageRow]:
    """One for the route that answered, or was asked last, and one for every other that has something to be paid. The second:
    what each expense of the report comes to."""
    day, asked = _day(int(time.time() // 86_400)), storable(report.asked)[:200]
    rows: dict[tuple[str, str, str, str], UsageRow] = {}
    for one, spent_for_it in zip(report.expenses, spent_micros, strict=False):
        if one.usage.total_tokens is not None:
            place = day, report.caller, asked, one.route
            unpriced = int(one.dollars is None)
            add_usage(rows, UsageRow.of(place, one.usage, micros=spent_for_it, unpriced=unpriced))
    place = day, report.caller, asked, report.route
    answered = structs.replace(
        rows.pop(place, UsageRow(*place)),
        requests=1,
        errors=1 if report.error else 0,
        repairs=sum(report.repairs.values()),
        losses=sum(report.losses.values()),
        failovers=report.failovers,
        lost_tokens=report.cache.lost if report.cache is not None else 0,
        lost_micros=micros(report.cache.dollars or 0.0) if report.cache is not None else 0,
    )
    return [answered, *rows.values()]

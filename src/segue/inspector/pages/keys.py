"""Keys and spend: who spends what, who is near a limit, which route is slow or rests. For operators."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from segue.errors import JournalError
from segue.gateway.accounts.administration import require_operator
from segue.gateway.accounts.budget_rules import MILLION
from segue.gateway.accounts.caller_keys import account_of
from segue.gateway.accounts.register import ANYONE
from segue.inspector.markup import charts, marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import ROOT, Page, button, head, section, table
from segue.inspector.pages.routes import figures_of, route_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.config.schema import Allowance
    from segue.gateway.accounts.administration import CallerInfo
    from segue.gateway.accounts.budget_rules import Reserved
    from segue.gateway.accounts.store import UsageRow
    from segue.inspector.page_request import View

_DAYS: Final = 14
_NEAR: Final = 0.9


async def _prepare(view: View) -> tuple[Any, ...]:
    require_operator(view.viewer.account)
    accounts = view.gateway.accounts
    today = datetime.now(UTC).date()
    first = today - timedelta(days=_DAYS - 1)
    try:
        configured = [
            account_of(name, caller) for name, caller in view.gateway.config.gateway.callers.items()
        ]
        infos = [await accounts.administration.info(account) for account in configured]
        callers = [*infos, *await accounts.administration.callers()]
        usage = await accounts.administration.usage(first.isoformat(), today.isoformat())
        reserved = {caller.name: (await accounts.store.standing(caller.name))[1] for caller in callers}
    except JournalError:
        return [], [], {}
    return callers, usage, reserved


def page(
    view: View, callers: Sequence[CallerInfo], usage: Sequence[UsageRow], reserved: dict[str, Reserved]
) -> Page:
    require_operator(view.viewer.account)
    days = [(datetime.now(UTC).date() - timedelta(days=_DAYS - 1 - n)).isoformat() for n in range(_DAYS)]
    spent = _spent(usage)
    today = sum(by_day.get(days[-1], 0.0) for by_day in spent.values())
    total = sum(sum(by_day.values()) for by_day in spent.values())
    held = sum(one.micros for one in reserved.values()) / MILLION
    line = " · ".join(
        (
            words.count(len(callers), "caller") if callers else "no caller has a key",
            f"{words.dollars(today, 2)} spent today, {words.dollars(held, 2)} reserved by running requests",
            f"{words.dollars(total, 2)} in {_DAYS} days",
        )
    )
    body = [
        head("Keys and spend", line, button("New key", "new-key", main=True)),
        operator_tabs("keys"),
        e("div", id="key-form", aria_live="polite"),
        _callers(view, callers, reserved),
        section(
            "Spend by day",
            _families(spent),
            charts.spend_by_day(days, spent),
            _spend_table(days, spent),
            end="dollars, by provider",
        ),
        e(
            "div",
            section("Spend by model", _spend_by(usage, "route"), end=f"the last {_DAYS} days"),
            section("Spend by caller", _spend_by(usage, "caller"), end=f"the last {_DAYS} days"),
            cls="two",
        ),
        e(
            "details",
            e("summary", "By model and caller", cls="foldrow"),
            _by_model(usage),
            cls="gap16",
        )
        if usage
        else None,
        section("Routes", route_table(figures_of(view))),
    ]
    return Page(
        title="Keys and spend",
        tab="keys",
        body=body,
        data={"callers": callers, "usage": usage},
        foot=e(
            "span",
            "You see counts and money of all callers. Content of a caller needs a second permission, and each look is noted.",
        ),
        keys=(("j k", "move"),),
    )


page.prepare = _prepare  # type: ignore[attr-defined]  # what has to be waited for, before the page is made in a thread


def operator_tabs(now: str) -> Element:
    pages = (("keys", "Callers"), ("log", "Request log"), ("audit", "Audit log"), ("settings", "Settings"))
    return e(
        "nav",
        [
            e("a", title, href=f"{ROOT}/{name}", aria_current="true" if name == now else None)
            for name, title in pages
        ],
        cls="tabs under",
        aria_label="Pages for operators",
    )


def _spent(usage: Sequence[UsageRow]) -> dict[str, dict[str, float]]:
    """Family → day → dollars; the largest family first."""
    found: dict[str, dict[str, float]] = {}
    for row in usage:
        by_day = found.setdefault(marks.family_of(row.route).name, {})
        by_day[row.day] = by_day.get(row.day, 0.0) + row.micros / MILLION
    return dict(sorted(found.items(), key=lambda one: -sum(one[1].values())))


def _families(spent: dict[str, dict[str, float]]) -> Element:
    """What the colours of the plot stand for, with sums."""
    shown = [
        e(
            "span",
            marks.family_mark(family),
            f"{marks.family_named(family).title} {words.dollars(sum(by_day.values()), 2)}",
            cls="m",
        )
        for family, by_day in spent.items()
    ]
    return e("div", shown, cls="row wrap gap8 keys")


def _spend_by(usage: Sequence[UsageRow], what: str) -> Node:
    """Bars of dollars, the largest first, with what was lost to caches."""
    found: dict[str, list[float]] = {}
    for row in usage:
        sums = found.setdefault(getattr(row, what), [0.0, 0.0, 0.0])
        sums[0] += row.micros
        sums[1] += row.requests
        sums[2] += row.lost_micros
    if not found:
        return e("p", "No requests in this period.", cls="q gap8")
    most = max(sums[0] for sums in found.values()) or 1
    rows = [
        e(
            "tr",
            e(
                "td",
                (marks.model(name, whole=True) if what == "route" and name else _caller_name(name)) or "–",
            ),
            e("td", marks.share_bar([("t-fresh", micros / most)], 120), cls="mid wide"),
            e("td", f"{int(requests):,}", cls="r"),
            e("td", words.dollars(lost / MILLION, 2) if lost else e("span", "–", cls="zero"), cls="r"),
            e("td", words.cost(micros / MILLION, 2), cls="r b"),
        )
        for name, (micros, requests, lost) in sorted(found.items(), key=lambda one: -one[1][0])[:20]
    ]
    title = "Model" if what == "route" else "Caller"
    headings = (title, "Share", ">Requests", ">Lost to caches", ">Spend")
    return table(headings, rows, kind="tight", label=f"Spend by {title.lower()}")


def _spend_table(days: Sequence[str], spent: dict[str, dict[str, float]]) -> Element:
    rows = [
        e(
            "tr",
            e("td", marks.family_named(family).title),
            [e("td", f"{by_day.get(day, 0.0):.2f}", cls="r") for day in days],
        )
        for family, by_day in spent.items()
    ]
    return e(
        "details",
        e("summary", "The same as a table", cls="foldrow"),
        table(("Provider", *[f">{day[5:]}" for day in days]), rows, kind="tight", label="Spend by day"),
    )


def _by_model(usage: Sequence[UsageRow]) -> Node:
    found: dict[tuple[str, str], list[float]] = {}
    for row in usage:
        sums = found.setdefault((row.caller, row.route), [0, 0, 0, 0, 0])
        for place, number in enumerate(
            (row.requests, row.input_tokens, row.cached_tokens, row.output_tokens, row.micros)
        ):
            sums[place] += number
    if not found:
        return e("p", "No requests in this period.", cls="q gap8")
    most = max(sums[4] for sums in found.values()) or 1
    rows = [
        e(
            "tr",
            e("td", _caller_name(caller)),
            e("td", marks.model(route, whole=True) if route else "–"),
            e("td", f"{int(sums[0]):,}", cls="r"),
            e("td", words.short(int(sums[1])), cls="r"),
            e("td", words.percent(sums[2] / sums[1]) if sums[1] and sums[2] else words.NO_DATA, cls="r"),
            e("td", words.short(int(sums[3])), cls="r"),
            e("td", marks.share_bar([("t-fresh", sums[4] / most)], 120), cls="mid wide"),
            e("td", words.cost(sums[4] / MILLION), cls="r"),
        )
        for (caller, route), sums in sorted(found.items(), key=lambda one: -one[1][4])[:50]
    ]
    return table(
        ("Caller", "Model", ">Requests", ">Input", ">Cached", ">Output", "", ">Spend"),
        rows,
        kind="tight",
        label="Spend by model and caller",
    )


def _caller_name(name: str) -> str:
    """Of programs of this machine that need no key: they are no caller of the list."""
    return f"{name} (programs of this machine, no key)" if name == ANYONE.name else name


def _callers(view: View, callers: Sequence[CallerInfo], reserved: dict[str, Reserved]) -> Node:
    if not callers:
        return section(
            "Callers",
            e(
                "p",
                "No caller has a key: this gateway serves its own machine only. ",
                e("code", "segue gateway keys create NAME"),
                " makes one.",
                cls="q gap8",
            ),
        )
    keys = [marks.key("t-fresh", "spent"), marks.key("t-write", "reserved"), marks.key("f-line", "left")]
    headings = (
        "Caller and models",
        "Budget",
        ">Spent",
        ">Reserved",
        ">Left",
        ">Requests a minute",
        ">Running",
        ">Actions",
    )
    fixed = view.gateway.config.gateway.callers
    rows = [
        _caller(
            one,
            reserved[one.name].micros / MILLION if one.name in reserved else 0.0,
            is_fixed=one.name in fixed,
        )
        for one in callers
    ]
    cells = [e("th", one.lstrip(">"), cls="r" if one[0] == ">" else None, scope="col") for one in headings]
    shown = e("table", e("thead", e("tr", cells)), e("tbody", rows), cls="stack callers")
    return section("Callers", shown, end=e("span", keys, cls="keys"))


def _caller(one: CallerInfo, reserved: float, *, is_fixed: bool) -> Element:
    """`is_fixed`: it is in the configuration, which is changed in its file."""
    allowed = one.allowance
    limit, spent, span = allowed.dollars_per_day, one.dollars_today, "a day"
    if limit is None and allowed.dollars_per_month is not None:
        limit, spent, span = allowed.dollars_per_month, one.dollars_this_month, "a month"
    left = limit - spent - reserved if limit is not None else None
    budget: Node = e("span", "no limit", cls="f s")
    near = False
    if limit:
        used = (spent + reserved) / limit
        near = used >= _NEAR
        bar = marks.share_bar([("t-fresh", spent / limit), ("t-write", reserved / limit)], 150, 8)
        budget = [
            e("span", bar, e("span", f"of {words.dollars(limit, 2)} {span}", cls="f s nw"), cls="row"),
            e("span", f"⚠ {words.percent(min(used, 1.0))} committed", cls="s warn") if near else None,
        ]
    revoked = one.revoked is not None
    role = " · operator" if one.admin else ""
    actions: Node = e("span", "in the configuration", cls="f s")
    if revoked:
        actions = button("Remove", "key-remove", quiet=True, name=one.name)
    elif not is_fixed:
        actions = [
            button("Limits", "key-limits", quiet=True, name=one.name, **_limits(allowed)),
            button("Rotate", "key-rotate", quiet=True, name=one.name),
            button("Revoke", "key-revoke", quiet=True, name=one.name),
        ]
    return e(
        "tr",
        e(
            "td",
            one.name,
            e(
                "span",
                "revoked" if revoked else f"{', '.join(allowed.models) or 'all models'}{role}",
                cls="s f nb",
            ),
            cls="title b",
        ),
        e("td", budget),
        e("td", words.dollars(spent, 2), cls="r", data_l="spent"),
        e(
            "td",
            words.dollars(reserved, 2) if reserved else e("span", "–", cls="zero"),
            cls="r",
            data_l="reserved",
        ),
        e(
            "td",
            words.dollars(left, 2) if left is not None else e("span", "–", cls="zero"),
            cls="r warn b" if near else "r",
            data_l="left",
        ),
        e("td", str(allowed.requests_per_minute or "–"), cls="r", data_l="per minute"),
        e("td", str(one.running), cls="r", data_l="running"),
        e("td", actions, cls="r nw acts"),
        data_row=one.name,
    )


def _limits(allowed: Allowance) -> dict[str, Any]:
    """As the form of the page names them."""
    held = {
        "day": allowed.dollars_per_day,
        "month": allowed.dollars_per_month,
        "minute": allowed.requests_per_minute,
        "tokens": allowed.tokens_per_minute,
        "concurrent": allowed.concurrent,
    }
    shown = {name: "" if limit is None else f"{limit:g}" for name, limit in held.items()}
    return {"models": ", ".join(allowed.models), **shown}

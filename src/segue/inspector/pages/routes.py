"""Routes: which are slow, which fail, which rest, and what they cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct

from segue.inspector.markup import charts, marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import Page, head, section, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.inspector.page_request import View
    from segue.providers.headroom import Headroom
    from segue.routing.statistics import MemberStatistics


_SHARES: Final = (0.5, 0.95, 1.0)


@final
class RouteFigures(Struct, kw_only=True, omit_defaults=True):
    """One route, as far as this viewer's requests went there."""

    route: str
    circuit: str = "ok"
    """`ok`, `testing` or `resting`."""
    why: str = ""
    requests: int = 0
    errors: int = 0
    p50: float | None = None
    p95: float | None = None
    total_p50: float | None = None
    dollars: float | None = None
    restored: int = 0
    missing: int = 0
    requests_left: float | None = None
    """Of the provider's limits, as its last reply had them: shares; None if it does not say."""
    tokens_left: float | None = None
    left: list[str] = []
    """The same in numbers, with when they are whole again."""
    first_contents: list[float] = []
    totals: list[float] = []


def figures_of(view: View) -> list[RouteFigures]:
    found: dict[str, RouteFigures] = {}
    for one in view.requests():
        for attempt in one.attempts:
            held = found.setdefault(attempt.route, RouteFigures(route=attempt.route))
            held.requests += 1
            held.errors += bool(attempt.error)
            if attempt.first_content is not None and not attempt.error:
                held.first_contents.append(attempt.first_content)
                held.totals.append(attempt.seconds)
        if one.route and one.dollars is not None and one.route in found:
            found[one.route].dollars = (found[one.route].dollars or 0.0) + one.dollars
        if one.route in found:
            found[one.route].restored += one.restored
            found[one.route].missing += one.missing
    for held in found.values():
        held.p50, held.p95 = _quantile(held.first_contents, 0.5), _quantile(held.first_contents, 0.95)
        held.total_p50 = _quantile(held.totals, 0.5)
    for route, held in found.items():
        _note_left(held, _limits_of(view, route))
    for name, member in _members(view).items():
        held = found.setdefault(name, RouteFigures(route=name))
        held.circuit, held.why = _circuit(member)
    return sorted(found.values(), key=lambda held: -held.requests)


def _limits_of(view: View, route: str) -> tuple[Headroom, ...]:
    """As the provider's last replies had them."""
    name, _, model = route.partition("/")
    provider = view.providers.get(name)
    book = getattr(provider, "headroom", None)
    return book.last(model) if book is not None else ()


def _note_left(held: RouteFigures, limits: Sequence[Headroom]) -> None:
    now, shares = time.monotonic(), dict[str, float]()
    for limit in limits:
        if limit.kind == "refused":
            continue
        whole_in = limit.resets_at - now
        left, of = (limit.left, limit.limit) if whole_in > 0 else (limit.limit, limit.limit)
        if of:
            kind = "requests" if "request" in limit.kind else "tokens"
            shares[kind] = min(shares.get(kind, 1.0), (left or 0) / of)
        if left is not None:
            again = f", whole again in {words.seconds(whole_in)}" if whole_in > 0 else ""
            held.left.append(f"{left:,} {limit.kind.replace('-', ' ')} left{again}")
    held.requests_left, held.tokens_left = shares.get("requests"), shares.get("tokens")


def _members(view: View) -> dict[str, MemberStatistics]:
    """Of all routers that have members."""
    config, found = view.gateway.config, dict[str, Any]()
    for name in config.profiles:
        try:
            router = view.gateway.names.router(name)
        except Exception:  # noqa: S112 - a profile that leads nowhere has no members to show
            continue
        statistics = getattr(router, "statistics", None)
        for member in statistics() if statistics is not None else ():
            found[member.name] = member
    return found


def _circuit(member: MemberStatistics) -> tuple[str, str]:
    kind = {"closed": "ok", "half_open": "testing", "open": "resting"}[member.breaker]
    return (
        ("resting", member.unusable) if member.unusable else (kind, member.last_error if kind != "ok" else "")
    )


def _quantile(values: Sequence[float], share: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def page(view: View) -> Page:
    found = figures_of(view)
    since = time.strftime("%H:%M", time.localtime(view.recorder.started))
    body = [
        head(
            "Routes",
            f"{words.count(len(found), 'route')}, as this process saw them since {since}.",
        ),
        route_table(found),
        section(
            "Time to first content, and of the whole reply",
            _latencies(found),
            aside="how often which time was measured, by route",
        )
        if any(held.first_contents for held in found)
        else None,
    ]
    data = [
        {
            name: getattr(held, name)
            for name in held.__struct_fields__
            if name not in ("first_contents", "totals")
        }
        for held in found
    ]
    return Page(title="Routes", tab="routes", body=body, data={"routes": data}, keys=(("j k", "move"),))


def route_table(found: Sequence[RouteFigures]) -> Element:
    most = max((held.p95 or 0.0 for held in found), default=0.0)
    rows = [_row(held, most) for held in found]
    headings = (
        "Member",
        "Circuit",
        ">Attempts",
        ">Errors",
        "First content, p50 to p95",
        ">p50",
        ">p95",
        ">Whole, p50",
        "Requests left",
        "Tokens left",
        ">Earlier replies restored, in all requests",
        ">Spend",
    )
    if not rows:
        return e("p", "No request has gone to a provider yet.", cls="q empty")
    return table(headings, rows, label="Routes")


def _row(held: RouteFigures, most: float) -> Element:
    share = held.errors / held.requests if held.requests else None
    dot = {"ok": "ok", "testing": "testing", "resting": "failed"}[held.circuit]
    restored: Node = e("span", "–", cls="zero")
    if held.restored or held.missing:
        restored = f"{held.restored} of {held.restored + held.missing}"
    return e(
        "tr",
        e(
            "td",
            marks.model(held.route, bold=True, whole=True),
            e("span", held.route.partition("/")[0], cls="s f"),
        ),
        e(
            "td",
            e("span", marks.dot(dot), held.circuit, cls="state" if held.circuit == "ok" else "state on"),
            e("span", words.plain_text(held.why, 80), cls="s f") if held.why else None,
        ),
        e("td", words.thousands(held.requests), cls="r"),
        e(
            "td",
            e(
                "span",
                f"{share * 100:.1f} %" if share is not None else words.NO_DATA,
                cls="bad b" if share and share > 0.02 else "zero",
            ),
            cls="r nw",
        ),
        e("td", charts.spread(held.p50, held.p95, most), cls="mid"),
        e("td", words.seconds(held.p50), cls="r nw"),
        e("td", words.seconds(held.p95), cls="r nw"),
        e("td", words.seconds(held.total_p50), cls="r nw"),
        e("td", _left(held.requests_left, held.left), cls="mid"),
        e("td", _left(held.tokens_left, held.left), cls="mid"),
        e("td", restored, cls="r nw"),
        e("td", words.cost(held.dollars), cls="r"),
        data_row=held.route,
    )


def _left(share: float | None, said: Sequence[str]) -> Node:
    if share is None:
        return e("span", words.NO_DATA, cls="f")
    kind = "t-write" if share > 0.1 else "f-bad"
    return e(
        "span",
        e("span", marks.share_bar([(kind, share)], 48), cls="wide"),
        e("span", words.percent(share), cls="nw"),
        cls="row",
        title="; ".join(said),
    )


def _latencies(found: Sequence[RouteFigures]) -> Element:
    shown = [held for held in found if held.first_contents]
    most = max((max(held.totals) for held in shown if held.totals), default=1.0)
    first = max((max(held.first_contents) for held in shown), default=1.0)
    rows = [
        e(
            "tr",
            e("td", marks.model(held.route, whole=True)),
            e("td", charts.distribution(held.first_contents, first)),
            *[e("td", words.seconds(_quantile(held.first_contents, share)), cls="r nw") for share in _SHARES],
            e("td", charts.distribution(held.totals, most)),
            *[e("td", words.seconds(_quantile(held.totals, share)), cls="r nw") for share in _SHARES],
            e("td", words.thousands(len(held.totals)), cls="r"),
        )
        for held in shown
    ]
    headings = (
        "Route",
        f"First content, 0 to {words.seconds(first)}",
        ">p50",
        ">p95",
        ">Slowest",
        f"Whole reply, 0 to {words.seconds(most)}",
        ">p50",
        ">p95",
        ">Slowest",
        ">Measured",
    )
    return table(headings, rows, kind="lat", label="Latencies")

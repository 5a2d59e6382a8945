"""Plots as inline SVG. Each has a label that says what it shows, and its figures stand in a table beside or below it."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.inspector.markup import words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.marks import TOKEN_CLASSES, family_of, mark_at, short_name, token_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.inspector.record.records import RequestRecord

_WIDTH: Final = 1232
_MOST_BARS: Final = 120
_WIDEST_SLOT: Final = 96.0
"""Of a request and the gap behind it: one bar alone would fill the page."""


def _steps(most: float, number: int = 3) -> list[float]:
    """Round figures from 0 to about `most`."""
    if most <= 0:
        return [0.0, 1.0]
    raw = most / number
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    return [step * place for place in range(int(most / step) + 1)]


def _svg(children: Node, height: int, label: str, width: int = _WIDTH) -> Element:
    drawn = e("svg", children, width="100%", viewBox=f"0 0 {width} {height}", role="img", aria_label=label)
    return e("figure", drawn, tabindex="0")


def half_hours(counts: Sequence[int], first: str) -> Element:
    """Requests per half hour; the present one stands out."""
    most, bars = max(counts, default=0) or 1, []
    for place, number in enumerate(counts):
        height = max(number / most * 32, 0.7)
        bars.append(
            e(
                "rect",
                e("title", words.count(number, "request")),
                cls="f-accent" if place == len(counts) - 1 else "f-strong",
                x=place * 13,
                y=34 - height,
                width=10,
                height=height,
            )
        )
    wide = 13 * len(counts) - 3
    return e(
        "svg",
        bars,
        e("text", first, x=0, y=46),
        e("text", "requests per half hour · now", x=wide, y=46, text_anchor="end"),
        width=wide,
        height=48,
        viewBox=f"0 0 {wide} 48",
        role="img",
        aria_label=f"Requests per half hour, {sum(counts)} in all, {counts[-1] if counts else 0} in this one",
    )


def tokens_of_requests(requests: Sequence[RequestRecord], lost: Mapping[str, str]) -> Element | None:
    """Tokens of each request, stacked, and the cost so far. `lost`: words above requests, by id."""
    shown = [one for one in requests if one.usage.total_tokens][-_MOST_BARS:]
    if not shown:
        return None
    most = max(one.usage.total_tokens or 0 for one in shown)
    steps = _steps(most)
    top, bottom, left, right = 28.4, 112.0, 44, 1162
    scale = (bottom - top) / max(steps[-1], most)
    cents = [one.dollars or 0.0 for one in shown]
    total = sum(cents)
    drawn: list[Node] = []
    for step in steps:
        y = bottom - step * scale
        drawn += [
            e("path", cls="g-line", d=f"M{left} {y:.1f}H{right}"),
            e("text", words.short(int(step)), x=left - 8, y=f"{y + 4:.1f}", text_anchor="end"),
        ]
    turns = [list(same) for _, same in groupby(shown, lambda one: one.turn)]
    gaps = len(turns) - 1
    slot = min((right - left - 12) / (len(shown) + 0.5 * gaps), _WIDEST_SLOT)
    at, places = left + 6.0, list[float]()
    for run in turns:
        start = at
        for one in run:
            drawn += _bar(one, at, slot * 0.56, bottom, scale, lost.get(one.id, ""))
            places.append(at + slot * 0.28)
            at += slot
        end = at - slot * 0.44
        drawn += _turn_label(run, start, end)
        at += slot * 0.5
    if total:
        drawn += _cost_line(cents, places, right, bottom, top, total)
    label = f"Tokens of {len(shown)} requests, stacked, and the cost so far: {words.dollars(total or None)}"
    return _svg(drawn, 142, label)


def _bar(one: RequestRecord, x: float, width: float, bottom: float, scale: float, said: str) -> list[Node]:
    at, drawn = bottom, list[Node]()
    parts = token_parts(one.usage)
    tip = e(
        "title",
        f"Request {one.number}: {words.thousands(parts[0])} read, {words.thousands(parts[1])} written, "
        f"{words.thousands(parts[2])} fresh, {words.thousands(parts[3])} output",
    )
    for name, number in zip(TOKEN_CLASSES, parts, strict=True):
        if number:
            height = max(number * scale, 0.8)
            at -= height
            drawn.append(e("rect", cls=name, x=x, y=at, width=width, height=height))
    text = (
        [
            e(
                "text",
                said,
                cls="bad" if said == "cache lost" else "q",
                x=x + width / 2,
                y=at - 6,
                text_anchor="middle",
            )
        ]
        if said
        else []
    )
    return [e("g", tip, drawn), *text]


def _turn_label(run: Sequence[RequestRecord], start: float, end: float) -> list[Node]:
    route = run[-1].route
    line = e("rect", x=start, y=117, width=max(end - start, 2.0), height=2)
    drawn: list[Node] = [e("g", line, cls=f"p-{family_of(route).name}")]
    if end - start > 24:
        drawn.append(mark_at(route, start, 126))
        room = int((end - start - 13) / 6)
        name = f"{run[0].turn} · {short_name(route)}"
        drawn.append(
            e("text", name if len(name) <= room + 8 else str(run[0].turn), cls="q", x=start + 13, y=134)
        )
    return drawn


def _cost_line(
    cents: Sequence[float], places: Sequence[float], right: float, bottom: float, top: float, total: float
) -> list[Node]:
    height, so_far, path = bottom - top + 4, 0.0, f"M{places[0] - 20:.1f} {bottom:.1f}"
    for amount, x in zip(cents, places, strict=True):
        so_far += amount
        path += f"H{x:.1f}V{bottom - so_far / total * height:.1f}"
    drawn: list[Node] = [e("path", cls="g-text", stroke_width="1.4", d=f"{path}H{right}")]
    drawn.append(e("text", "$0", x=right + 8, y=bottom + 4))
    drawn.append(e("text", words.dollars(total), cls="ink", x=right + 8, y=f"{bottom - height + 4:.1f}"))
    return drawn


@final
class Lane(Struct, frozen=True, kw_only=True):
    """One line of a waterfall."""

    title: str
    route: str = ""
    bars: tuple[tuple[str, float, float], ...] = ()
    """Class, start and end in seconds."""
    note: str = ""
    bad: bool = False
    bold: bool = False


def waterfall(lanes: Sequence[Lane], total: float, commit: float | None) -> Element:
    """Attempts of one request over time. `commit`: when the client got the first content."""
    # A note stands behind its bars, which may go on to the end: 7.5 is a letter's width.
    left, right = 250.0, max(1224.0 - 7.5 * max(len(lane.note) for lane in lanes), 700.0)
    steps = _steps(max(total, 0.05), 6)
    scale = (right - left) / max(steps[-1], total, 0.001)
    height = 30 + 21 * len(lanes) + (16 if commit is not None else 0)
    drawn: list[Node] = []
    for step in steps:
        x = left + step * scale
        drawn += [
            e("path", cls="g-line", d=f"M{x:.1f} 16V{height - 14}"),
            e("text", words.seconds(step) if step else "0 s", x=f"{x:.1f}", y=10, text_anchor="middle"),
        ]
    for place, lane in enumerate(lanes):
        y = 22 + 21 * place
        if lane.route:
            drawn.append(mark_at(lane.route, 0, y + 1))
        drawn.append(
            e("text", lane.title, cls="ink" if lane.bold else "q", x=14 if lane.route else 0, y=y + 9)
        )
        end = left
        for name, start, stop in lane.bars:
            x, wide = left + start * scale, max((stop - start) * scale, 2.0)
            drawn.append(e("rect", cls=name, x=x, y=y, width=wide, height=10, rx=1))
            end = max(end, x + wide)
        if lane.note:
            name = "bad" if lane.bad else "ink"
            drawn.append(e("text", lane.note, cls=name, x=f"{end + 8:.1f}", y=y + 9))
    if commit is not None:
        x = left + commit * scale
        said = "commit point: first content reaches the client; a failure before it is not seen"
        drawn += [
            e(
                "path",
                cls="g-accent",
                stroke_width="1.4",
                stroke_dasharray="3 2",
                d=f"M{x:.1f} 16V{height - 6}",
            ),
            e(
                "text",
                said,
                cls="q",
                x=f"{x + (6 if x < 760 else -6):.1f}",
                y=height - 4,
                text_anchor=None if x < 760 else "end",
            ),
        ]
    label = f"{len(lanes)} lines over {words.seconds(total)}: " + "; ".join(
        f"{lane.title} {lane.note}" for lane in lanes
    )
    return _svg(drawn, height, label)


def spend_by_day(days: Sequence[str], spent: Mapping[str, Mapping[str, float]]) -> Element:
    """Dollars by day, stacked. `spent`: family → day → dollars; the family is that of some route."""
    totals = {day: sum(by_day.get(day, 0.0) for by_day in spent.values()) for day in days}
    most = max(totals.values(), default=0.0) or 1.0
    steps, bottom, top, left, right = _steps(most), 134.0, 20.0, 44, 1122
    scale = (bottom - top) / max(steps[-1], most)
    drawn: list[Node] = []
    for step in steps:
        y = bottom - step * scale
        drawn += [
            e("path", cls="g-line", d=f"M{left} {y:.1f}H{right}"),
            e("text", f"${step:,.2f}".replace(".00", ""), x=left - 8, y=f"{y + 4:.1f}", text_anchor="end"),
        ]
    slot = (right - left - 12) / max(len(days), 1)
    for place, day in enumerate(days):
        x, at = left + 6 + place * slot, bottom
        for family, by_day in spent.items():
            amount = by_day.get(day, 0.0)
            if amount:
                height = max(amount * scale, 0.8)
                at -= height
                title = e("title", f"{day} {family}: {words.dollars(amount, 2)}")
                drawn.append(
                    e("rect", title, cls=f"p-{family}", x=x, y=at, width=slot * 0.62, height=height - 0.4)
                )
        last = place == len(days) - 1
        middle = x + slot * 0.31
        drawn.append(
            e(
                "text",
                "today" if last else str(int(day[8:])),
                cls="ink" if last else None,
                x=middle,
                y=150,
                text_anchor="middle",
            )
        )
        if totals[day]:
            drawn.append(
                e(
                    "text",
                    f"{totals[day]:.2f}",
                    cls="ink" if last else "q",
                    x=middle,
                    y=at - 6,
                    text_anchor="middle",
                )
            )
    drawn.append(e("text", "days of UTC", x=left + 6, y=165))
    label = f"Spend by day, stacked by provider; today {words.dollars(totals[days[-1]] if days else 0.0, 2)}"
    return _svg(drawn, 168, label)


def spread(p50: float | None, p95: float | None, most: float, width: int = 120) -> Node:
    """From the middle of the times to the slow end of them."""
    if p50 is None or p95 is None:
        return e("span", words.NO_DATA, cls="f")
    scale = (width - 4) / max(most, 0.001)
    start, end = p50 * scale, max(p95 * scale, p50 * scale + 2)
    return e(
        "svg",
        e("rect", cls="f-line", y=5, width=width, height=2),
        e("rect", cls="t-write", x=start, y=4, width=end - start, height=4),
        e("rect", cls="f-text", x=start, y=1, width=2, height=10),
        width=width,
        height=12,
        viewBox=f"0 0 {width} 12",
        aria_hidden="true",
    )


def distribution(values: Sequence[float], most: float, width: int = 180) -> Node:
    """How often which time was measured."""
    if not values:
        return e("span", words.NO_DATA, cls="f")
    number = 24
    counts = [0] * number
    for value in values:
        counts[min(int(value / max(most, 0.001) * number), number - 1)] += 1
    top, slot = max(counts), width / number
    bars = [
        e(
            "rect",
            cls="t-write",
            x=place * slot,
            y=22 - max(held / top * 22, 1.0 if held else 0.0),
            width=slot - 1,
            height=max(held / top * 22, 1.0),
        )
        for place, held in enumerate(counts)
        if held
    ]
    return e(
        "svg",
        e("rect", cls="f-line", y=22, width=width, height=1),
        bars,
        width=width,
        height=24,
        viewBox=f"0 0 {width} 24",
        role="img",
        aria_label=f"{len(values)} measured, up to {words.seconds(max(values))}",
    )

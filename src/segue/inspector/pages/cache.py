"""Cache and cost: did the cache hold, which byte differed first, why, and how much money was that?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from segue.conversation.usage import Usage
from segue.gateway.prompt_caches.facts import cache_facts
from segue.gateway.prompt_caches.prompts import common_bytes, first_difference, taken_apart
from segue.inspector.markup import marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import (
    ROOT,
    Page,
    conversation_tabs,
    crumb,
    figure,
    head,
    link_button,
    section,
)
from segue.inspector.views.cache_causes import outcomes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.gateway.prompt_caches.prompts import PromptPart
    from segue.inspector.page_request import View
    from segue.inspector.record.records import ConversationRecord, RequestRecord
    from segue.inspector.views.cache_causes import RequestCache

_AROUND: Final = 160
"""Bytes shown before and after the first one that differs."""


def page(view: View, name: str) -> Page:
    known = view.conversation(name)
    requests = [one for one in known.requests if one.usage.total_tokens]
    outcomes = {one.request: one for one in outcomes_of(requests)}
    misses = [one for one in outcomes.values() if one.lost and one.cause != "model"]
    cold = [one for one in outcomes.values() if one.lost and one.cause == "model"]
    lost = sum(one.dollars or 0.0 for one in misses)
    if view.query.get("export") == "csv":
        return Page(
            title="", tab="", body=None, data=_csv(requests, outcomes), download=f"cache-{known.id}.csv"
        )
    most = max((one.usage.input_tokens or 0 for one in requests), default=1)
    body: list[Node] = [
        crumb(("Conversations", "/"), (view.title(known), f"/c/{known.id}"), ("cache and cost", "")),
        head(
            "Cache and cost",
            _line(known, misses, lost),
            link_button("Export CSV", f"{ROOT}/c/{known.id}/cache?export=csv", download=""),
        ),
        conversation_tabs(known.id, known.request_count, "cache"),
        e("div", _figures(view, requests, known, misses, cold), cls="gap16"),
        request_table(requests, outcomes, most),
        [_miss(view, known, miss) for miss in misses[-5:]],
    ]
    return Page(
        title="Cache and cost",
        tab="conversations",
        body=body,
        data={
            "outcomes": list(outcomes.values()),
            "lost_dollars": lost,
            "cold_dollars": sum(one.dollars or 0.0 for one in cold),
            "usage": known.usage,
            "dollars": known.dollars,
        },
        foot=e(
            "span", "“no data” stands where a provider reports no cache counts; it is never shown as 0 %."
        ),
        keys=(("n N", "next miss"), ("j k", "move"), ("enter", "open request")),
    )


def _line(known: ConversationRecord, misses: Sequence[RequestCache], lost: float) -> str:
    if known.cache_share is None:
        return "No provider of this conversation reported what it read from a cache."
    said = f"{words.percent(known.cache_share)} of {words.thousands(known.usage.input_tokens)} input tokens were read from caches."
    if not misses:
        return f"{said} No miss."
    without = (
        f"; without {'it' if len(misses) == 1 else 'them'} the conversation would have cost {words.dollars((known.dollars or 0) - lost)}"
        if lost
        else ""
    )
    return f"{said} {words.count(len(misses), 'miss', 'misses')} cost {words.dollars(lost)}{without}."


def _figures(
    view: View,
    requests: Sequence[RequestRecord],
    known: ConversationRecord,
    misses: Sequence[RequestCache],
    cold: Sequence[RequestCache],
) -> Element:
    lost, starts = (sum(one.dollars or 0.0 for one in held) for held in (misses, cold))
    shares = _by_kind(view, requests)
    titles = ("Read", "Written", "Fresh", "Output")
    parts = marks.token_parts(known.usage)
    shown = [
        e(
            "div",
            e(
                "dt",
                e(
                    "svg",
                    e("rect", cls=kind, width=9, height=9, rx="1.5"),
                    cls="inl",
                    width=9,
                    height=9,
                    aria_hidden="true",
                ),
                title,
            ),
            e("dd", words.dollars(amount), " ", e("small", words.short(number))),
        )
        for title, kind, amount, number in zip(titles, marks.TOKEN_CLASSES, shares, parts, strict=True)
    ]
    return e(
        "dl",
        figure("Total", words.cost(known.dollars)),
        shown,
        e(
            "div",
            e("dt", "Lost to a miss" if len(misses) == 1 else f"Lost to {len(misses)} misses"),
            e("dd", words.dollars(lost) if misses else "nothing", cls="bad" if misses else "good"),
            cls="end",
        ),
        figure(
            "Price of a cold start" if len(cold) == 1 else f"Price of {len(cold)} cold starts",
            words.dollars(starts),
        )
        if cold
        else None,
        cls="figures",
    )


def _by_kind(view: View, requests: Sequence[RequestRecord]) -> list[float | None]:
    """Dollars for what was read, written, fresh and output, each by itself."""
    prices, sums, known = view.gateway.accounts.prices, [0.0] * 4, False
    for one in requests:
        provider, _, model = one.route.partition("/")
        read, written, fresh, output = marks.token_parts(one.usage)
        alone = (
            Usage(read, 0, read),
            Usage(written, 0, None, written, cache_hour_tokens=one.usage.cache_hour_tokens),
            Usage(fresh, 0),
            Usage(0, output),
        )
        for place, usage in enumerate(alone):
            dollars = prices.cost_of(usage, provider, model)
            if dollars is not None:
                sums[place] += dollars
                known = True
    return [amount if known else None for amount in sums]


def request_table(
    requests: Sequence[RequestRecord],
    outcomes: dict[str, RequestCache],
    most: int,
    *,
    linked: bool = True,
) -> Element:
    """`linked`: each request has a page."""
    rows, last = [], 0
    for one in requests:
        outcome = outcomes.get(one.id)
        read, written, fresh, _ = marks.token_parts(one.usage)
        counted = one.usage.cached_tokens is not None
        share = read / (one.usage.input_tokens or 1) if counted else None
        rows.append(
            e(
                "tr",
                e("td", f"turn {one.turn}" if one.turn != last else "", cls="f nw"),
                e("td", marks.model(one.route)),
                e(
                    "td",
                    e("a", str(one.number), cls="link", href=f"{ROOT}/r/{one.id}") if linked else one.number,
                    cls="r",
                ),
                e("td", marks.token_bar(one.usage, most, 340, output=False), cls="mid wide"),
                e(
                    "td",
                    _held(outcome),
                    cls="r f",
                ),
                e("td", words.thousands(read) if counted else e("span", words.NO_DATA, cls="f"), cls="r nw"),
                e(
                    "td",
                    words.thousands(written)
                    if one.usage.cache_write_tokens is not None
                    else e("span", "–", cls="zero"),
                    cls="r",
                ),
                e("td", words.thousands(fresh), cls="r"),
                e("td", words.percent(share), cls="r nw"),
                e("td", words.cost(one.dollars), cls="r nw"),
                e("td", _said(outcome), cls="said"),
                cls="sel" if is_miss(outcome) else None,
                data_row=one.id,
                data_href=f"{ROOT}/r/{one.id}" if linked else None,
                data_mark=is_miss(outcome),
            )
        )
        last = one.turn
    headings = (
        ("Turn", ""),
        ("Model", ""),
        ("Request", "r"),
        ("Input: read, written, fresh", "wide"),
        ("In the cache before", "r"),
        ("Read", "r"),
        ("Written", "r"),
        ("Fresh", "r"),
        ("Share", "r"),
        ("Cost", "r"),
        ("What happened", ""),
    )
    heads = [e("th", title, cls=kind or None, scope="col") for title, kind in headings]
    table = e("table", e("thead", e("tr", heads)), e("tbody", rows), cls="tight lead-in")
    return e("div", table, cls="scroll", tabindex="0", role="region", aria_label="Requests and their caches")


def _held(outcome: RequestCache | None) -> str:
    """What this model’s cache had before the request: of a model that is asked for the first time, nothing."""
    if outcome is not None and outcome.cause == "model":
        return "0"
    return "–" if outcome is None or outcome.held is None else words.thousands(outcome.held)


def _said(outcome: RequestCache | None) -> Node:
    if outcome is None or not outcome.said:
        return ""
    cost = f" · cost {words.dollars(outcome.dollars)} more" if outcome.dollars else ""
    if not is_miss(outcome):
        return e("span", outcome.said, cost, cls="f")
    return e("a", f"✕ miss: {outcome.said}{cost}", cls="bad b", href=f"#miss-{outcome.number}")


def _miss(view: View, known: ConversationRecord, miss: RequestCache) -> Element:
    one = view.recorder.requests.get(miss.request)
    before = view.recorder.requests.get(miss.compared_to)
    again = f"Request {miss.number}: {words.thousands(miss.lost)} tokens were paid again"
    facts: list[tuple[str, Node]] = [
        ("Cause", f"{miss.cause}: {miss.said}"),
        ("In the cache", f"{words.thousands(miss.held)} tokens after the request before it on this route"),
        ("Still the same", f"{words.thousands(miss.predicted)} tokens: so many could still be read"),
        ("The provider reported", f"{words.thousands(miss.reported)} tokens read{_says(miss)}"),
    ]
    if miss.passed is not None:
        facts.append(("Time", f"{words.seconds(miss.passed)} after the request before it on this route"))
    if miss.place:
        facts.append(
            (
                "First difference",
                f"byte {words.thousands(miss.first_byte)} of {words.thousands(miss.total_bytes)}, in {miss.place}",
            )
        )
    if miss.confidence in _SURE:
        facts.append(("How sure", _SURE[miss.confidence]))
    if miss.dollars:
        facts.append(("Lost", [_sum(miss), e("b", words.dollars(miss.dollars))]))
    facts.append(("Not the cause", _not_the_cause(miss)))
    facts.append(("What helps", _HELP[miss.cause]))
    shown: Node = None
    if one is not None and before is not None and view.may_read(known.id, known.caller):
        was, now = _prompt_of(before), _prompt_of(one)
        if was and now:
            shown = [_map(now, miss.first_byte), _sides(before, one, was, now)]
    return section(
        again,
        shown,
        e("dl", [[e("dt", title), e("dd", text)] for title, text in facts], cls="kv gap16"),
        end=e("a", f"open request {miss.number}", cls="link", href=f"{ROOT}/r/{miss.request}"),
        id_=f"miss-{miss.number}",
    )


def is_miss(outcome: RequestCache | None) -> bool:
    """A model that is asked for the first time has nothing to read: that is no miss, though it has a price."""
    return outcome is not None and bool(outcome.lost) and outcome.cause != "model"


def _says(miss: RequestCache) -> Node:
    return f"; its own reason: {miss.reason}" if miss.reason else ""


def _sum(miss: RequestCache) -> str:
    each = (miss.dollars or 0.0) / miss.lost * 1e6
    return f"{miss.lost:,} tokens × ${each:.2f} more per million = "


def _not_the_cause(miss: RequestCache) -> str:
    """What was looked at and held, in the order of the prompt."""
    order = ("model", "tools", "system", "options", "history")
    if miss.cause not in order:
        return "model, tools, system prompt, options, history: all as before"
    same = [*order[: order.index(miss.cause)]]
    if miss.passed is not None:
        same.append(f"time to live ({words.seconds(miss.passed)} had passed)")
    return ", ".join(same) or "–"


def _csv(requests: Sequence[RequestRecord], outcomes: dict[str, RequestCache]) -> bytes:
    """A row for each request."""
    lines = ["turn,request,id,route,expected,read,written,fresh,output,lost,cause,lost_dollars,dollars"]
    for one in requests:
        outcome = outcomes.get(one.id)
        read, written, fresh, output = marks.token_parts(one.usage)
        expected, lost, cause, dollars = (
            (outcome.predicted, outcome.lost, outcome.cause, outcome.dollars)
            if outcome is not None
            else (None, 0, "none", None)
        )
        counted = read if one.usage.cached_tokens is not None else None
        cells = (one.turn, one.number, one.id, one.route, expected, counted, written, fresh, output)
        more = (lost, cause if lost else "", dollars, one.dollars)
        lines.append(",".join(_cell(value) for value in (*cells, *more)))
    return ("\r\n".join(lines) + "\r\n").encode()


def _cell(value: object) -> str:
    """What a spreadsheet would take for a formula stays text."""
    text = "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)
    if text[:1] in ("=", "+", "-", "@"):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text


_SURE: Final = {
    "H": "The provider documents its cache.",
    "M": "The provider says little about its cache; others have measured it.",
    "L": "This provider says nothing about its cache: what is expected of it is a guess.",
}
_HELP: Final = {
    "tools": "Connect tools before the first turn, and keep their order. Another place in the list would not have helped.",
    "system": "Keep what changes, such as a time or a list of files, out of the system prompt.",
    "history": "Earlier messages were changed: compaction, an edited message, or marks that were moved.",
    "options": "Keep settings of the model the same within a conversation.",
    "time to live": "Send the next message sooner, or ask for a cache that is kept for an hour.",
    "model": "Each model has a cache of its own.",
    "first request": "Nothing: there was no request before it.",
    "too short": "Nothing: a prompt as short as this is not kept.",
    "marks": "Mark the last message of each request (cache_control), or have less than 20 blocks between two marks.",
    "provider": "The provider has its own reason. Caches are no promise.",
    "unknown": "The requests are the same as far as they should be. Caches are no promise of a provider.",
    "none": "Nothing was lost.",
}


def _prompt_of(one: RequestRecord) -> list[PromptPart]:
    """What its provider got, in the order of the prompt; nothing if it is not recorded."""
    if one.content is None or one.content.provider is None:
        return []
    try:
        facts = cache_facts(one.dialect, one.route.partition("/")[2])
        return taken_apart(one.content.provider.data(), facts).parts
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _map(parts: Sequence[PromptPart], at: int | None) -> Element:
    """The prompt as a bar: tools, system, messages, and where it first differs."""
    sizes: dict[str, int] = {}
    for part in parts:
        if part.weight:
            sizes[part.group] = sizes.get(part.group, 0) + part.weight
    total, drawn, x = sum(sizes.values()) or 1, list[Node](), 0.0
    for group, size in sizes.items():
        wide = size / total * 1232
        drawn += [
            e("rect", cls="f-strong", x=x, y=18, width=max(wide - 2, 1.0), height=12),
            e("text", f"{group} {words.size(size)}", x=x, y=12) if wide > 60 else None,
        ]
        x += wide
    if at is not None:
        place = at / total * 1232
        drawn += [
            e("rect", cls="f-line", x=0, y=18, width=place, height=12),
            e("path", cls="g-bad", stroke_width="2", d=f"M{place:.1f} 14V36"),
            e(
                "text",
                f"first differing byte: {at:,}",
                cls="bad",
                x=f"{place + (6 if place < 900 else -6):.1f}",
                y=44,
                text_anchor=None if place < 900 else "end",
            ),
        ]
    label = "The prompt: " + ", ".join(f"{group} {words.size(size)}" for group, size in sizes.items())
    return e(
        "figure",
        e("svg", drawn, width="100%", viewBox="0 0 1232 50", role="img", aria_label=label),
        tabindex="0",
        cls="gap16",
    )


def _sides(
    before: RequestRecord, one: RequestRecord, was: Sequence[PromptPart], now: Sequence[PromptPart]
) -> Node:
    difference = first_difference(was, now)
    if difference is None:
        return None
    old = was[difference.parts].data if difference.parts < len(was) else None
    new = now[difference.parts].data if difference.parts < len(now) else None
    return e(
        "div",
        [
            e(
                "div",
                e(
                    "h3",
                    f"Request {request.number} ",
                    e("span", words.moment(request.began), f" · {difference.place}", cls="f nb"),
                ),
                e("pre", _excerpt(piece, old, new), cls=f"code {kind}"),
            )
            for request, piece, kind in ((before, old, "old"), (one, new, "new"))
        ],
        cls="two gap16",
    )


def _excerpt(piece: bytes | None, before: bytes | None, after: bytes | None) -> Node:
    if piece is None:
        return e("span", "nothing at this place", cls="f")
    at = common_bytes(before, after) if before is not None and after is not None else 0
    start = max(at - _AROUND, 0)
    head = piece[start:at].decode("utf-8", "replace")
    here = piece[at : at + 1].decode("utf-8", "replace")
    tail = piece[at + 1 : at + 1 + _AROUND].decode("utf-8", "replace")
    return [
        "…" if start else "",
        head,
        e("mark", here) if here else None,
        tail,
        "…" if at + 1 + _AROUND < len(piece) else "",
    ]

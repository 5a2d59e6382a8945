"""The first page: what runs, on which model, what did today cost, was anything refused?"""

from __future__ import annotations

import re
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct

from segue.inspector.markup import charts, marks, words
from segue.inspector.markup.html import Element, Node, e, tree_of
from segue.inspector.markup.shell import ROOT, Page, figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segue.inspector.page_request import View
    from segue.inspector.record.records import ConversationRecord

_ROWS: Final = 100
_MOST_DATA: Final = 1000
"""Rows in the JSON twin."""
_SHOW: Final = ("all", "active", "switched", "losses")
_WORD: Final = re.compile(r"(client|model|has|cost|state|caller):(\S+)|(\S+)")
_COST: Final = re.compile(r"([<>]?)=?(\d+(?:\.\d+)?)")


@final
class ListedConversation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation in the list, as data."""

    id: str
    title: str
    client: str = ""
    folder: str = ""
    caller: str = ""
    state: str = ""
    route: str = ""
    asked: str = ""
    switched: str = ""
    routes: list[str] = []
    turns: int = 0
    requests: int = 0
    repairs: int = 0
    losses: int = 0
    cache_share: float | None = None
    dollars: float | None = None
    updated: float = 0.0
    seen: bool = True
    """Whether this process served it; else it is known from the memory of the gateway only."""

    def row(self) -> ListedConversation:
        return self

    @property
    def text(self) -> str:
        """In which words are looked for."""
        return f"{self.title} {self.client} {self.folder} {self.id} {self.route}".lower()

    @property
    def names(self) -> set[str]:
        return {*self.routes, self.route, self.asked}

    @property
    def is_active(self) -> bool:
        return self.state not in ("idle", "failed")

    @property
    def is_switched(self) -> bool:
        return bool(self.switched) or len(set(self.routes)) > 1


def _row(view: View, known: ConversationRecord) -> ListedConversation:
    readable = view.may_read(known.id, known.caller)
    state, updated = state_of(view, known)
    return ListedConversation(
        id=known.id,
        title=view.title(known),
        client=marks.client_title(known.client),
        folder=known.folder if readable else "",
        caller=known.caller,
        state=state,
        route=known.route,
        asked=known.asked,
        switched=_switched(view, known.id, known.switched),
        routes=known.routes[-200:],
        turns=known.turns,
        requests=known.request_count,
        repairs=known.repairs,
        losses=known.losses,
        cache_share=known.cache_share,
        dollars=known.dollars,
        updated=updated,
    )


def _switched(view: View, name: str, otherwise: str) -> str:
    info = view.stored.get(name)
    return info.switched if info is not None else otherwise


def state_of(view: View, known: ConversationRecord) -> tuple[str, float]:
    """What it does now, and since when."""
    for report, _ in view.recorder.running_of(known.id):
        if report.caller == known.caller:
            streams = report.first_content is not None and report.stream
            return "streaming" if streams else "waiting", report.began
    return known.state, known.updated


@final
class _Seen:
    """A conversation that this process served, before anybody wants all of its row: of 10,000 only a hundred are shown."""

    __slots__ = ("_known", "_since", "_view", "updated")

    def __init__(self, view: View, known: ConversationRecord, since: float | None) -> None:
        """`since`: it waits for a reply from then on; None if it does not."""
        self._view, self._known, self._since = view, known, since
        self.updated = known.updated if since is None else since

    def row(self) -> ListedConversation:
        return _row(self._view, self._known)

    @property
    def text(self) -> str:
        known, view = self._known, self._view
        folder = known.folder if view.may_read(known.id, known.caller) else ""
        client = marks.client_title(known.client)
        return f"{view.title(known)} {client} {folder} {known.id} {known.route}".lower()

    @property
    def client(self) -> str:
        return marks.client_title(self._known.client)

    @property
    def caller(self) -> str:
        return self._known.caller

    @property
    def state(self) -> str:
        return state_of(self._view, self._known)[0]

    @property
    def is_active(self) -> bool:
        return self._since is not None or self._known.state == "tools run"

    @property
    def names(self) -> set[str]:
        return {*self._known.routes, self._known.asked}

    @property
    def is_switched(self) -> bool:
        known = self._known
        return known.several or bool(_switched(self._view, known.id, known.switched))

    @property
    def dollars(self) -> float | None:
        return self._known.dollars

    @property
    def losses(self) -> int:
        return self._known.losses

    @property
    def repairs(self) -> int:
        return self._known.repairs


def candidates(view: View) -> list[_Seen | ListedConversation]:
    """Those that this process served, and those that only the memory knows; the one used last comes first."""
    running = view.recorder.running()
    seen: list[_Seen | ListedConversation] = [
        _Seen(view, known, running.get(known.id)) for known in view.conversations()
    ]
    others = [
        ListedConversation(
            id=info.id,
            title=info.id,
            client=marks.client_title(info.client),
            caller=info.caller,
            state="idle",
            route=info.route,
            asked=info.asked,
            switched=info.switched,
            requests=info.requests,
            updated=info.updated,
            seen=False,
        )
        for info in view.stored.values()
        if info.id not in view.recorder.conversations
    ]
    return sorted([*seen, *others], key=lambda row: -row.updated)


def fits(row: _Seen | ListedConversation, question: str) -> bool:
    for field, value, word in _WORD.findall(question):
        if word and word.lower() not in row.text:
            return False
        if field and not _has(row, field, value.lower()):
            return False
    return True


def _has(row: _Seen | ListedConversation, field: str, value: str) -> bool:
    match field:
        case "client":
            return value in row.client.lower()
        case "caller":
            return value == row.caller.lower()
        case "state":
            return row.state.startswith(value)
        case "model":
            return any(
                fnmatchcase(part.lower(), value)
                for name in row.names
                for part in (name, name.partition("/")[2])
            )
        case "cost":
            found = _COST.fullmatch(value)
            if found is None or row.dollars is None:
                return False
            limit = float(found[2])
            return row.dollars < limit if found[1] == "<" else row.dollars >= limit
        case _:
            kind = _HAS.get(value)
            return kind is not None and kind(row)


_HAS: Final[dict[str, Callable[[_Seen | ListedConversation], bool]]] = {
    "loss": lambda row: row.losses > 0,
    "losses": lambda row: row.losses > 0,
    "repair": lambda row: row.repairs > 0,
    "repairs": lambda row: row.repairs > 0,
    "switch": lambda row: row.is_switched,
    "error": lambda row: row.state == "failed",
    "cost": lambda row: bool(row.dollars),
}
_TABS: Final[dict[str, Callable[[_Seen | ListedConversation], bool]]] = {
    "all": lambda _: True,
    "active": lambda row: row.is_active,
    "switched": lambda row: row.is_switched,
    "losses": lambda row: row.losses > 0,
}


def page(view: View) -> Page:
    question, tab = view.query.get("q", ""), view.query.get("show", "all")
    every = candidates(view)
    fitting = [row for row in every if fits(row, question)] if question else every
    in_tab = _TABS.get(tab, _TABS["all"])
    found = [row for row in fitting if in_tab(row)]
    listed = [row.row() for row in found[: _MOST_DATA if view.as_data else _ROWS]]
    held = figures_data(view)
    body = [
        e("h1", "Conversations", cls="hide"),
        e("div", figures(view, held), id="figures"),
        _filter(question, tab, fitting),
        _table(view, listed[:_ROWS], question, len(every)),
        e("p", f"{len(found) - _ROWS:,} more: narrow the filter.", cls="s f gap8")
        if len(found) > _ROWS
        else None,
        e(
            "p",
            e("button", "", cls="aslink", type="button", data_key=".", id="newer", hidden=True),
            cls="s gap8",
        ),
    ]
    return Page(
        title="Conversations",
        tab="conversations",
        body=body,
        data={"conversations": listed, "number": len(found), "figures": held},
        foot=e("span", marks.legend(), cls="wide"),
        keys=(
            ("j k", "move"),
            ("enter", "open"),
            ("s", "switch"),
            ("/", "filter"),
            ("p", "pause"),
            (".", "show newer"),
        ),
        live=True,
    )


def changes(view: View, changed: Sequence[str]) -> dict[str, Any]:
    """What a page that is open shows anew."""
    told = []
    for name in changed:
        known = view.recorder.conversations.get(name)
        if known is not None and view.may_see(known.caller):
            row = _row(view, known)
            told.append(
                {"id": name, "cells": [tree_of(cell) for cell in _cells(view, row)], "state": row.state}
            )
    return {"rows": told, "figures": tree_of(figures(view, figures_data(view)))}


def figures_data(view: View) -> dict[str, Any]:
    """Of today."""
    held = view.recorder.figures_of(view.now, None if view.viewer.is_operator else view.viewer.name)
    total = held.counted_tokens
    return {
        "requests": held.requests,
        "dollars": held.dollars,
        "cache_share": held.cached_tokens / total if total else None,
        "input_tokens": total,
        "repairs": held.repairs,
        "losses": held.losses,
        "refused": held.refused,
        "failovers": held.failovers,
    }


def figures(view: View, held: dict[str, Any]) -> Element:
    counts = view.recorder.half_hours(view.now)
    first = time.strftime("%H:%M", time.localtime((int(view.now // 1800) - len(counts) + 1) * 1800))
    refused = held["refused"]
    return e(
        "dl",
        figure("Requests today", words.thousands(held["requests"])),
        figure("Spend", words.cost(held["dollars"], 2)),
        figure(
            "Read from caches",
            words.percent(held["cache_share"]),
            f"of {words.short(held['input_tokens'])} tokens" if held["input_tokens"] else "",
        ),
        figure("Repairs in today’s requests", words.thousands(held["repairs"]), words.losses(held["losses"])),
        figure(
            "Failed for the client",
            str(refused),
            f"{words.count(held['failovers'], 'failover')}, unseen" if held["failovers"] else "",
            kind="bad" if refused else "good",
        ),
        e(
            "div",
            e("dt", "Requests per half hour", cls="hide"),
            e("dd", charts.half_hours(counts, first)),
            cls="end wide",
        ),
        cls="figures",
    )


def _filter(question: str, tab: str, fitting: Sequence[_Seen | ListedConversation]) -> Element:
    counts = {name: sum(map(_TABS[name], fitting)) for name in _SHOW if name != "all"}
    counts["all"] = len(fitting)
    titles = {"all": "All", "active": "Active", "switched": "Switched", "losses": "With losses"}
    more = f"&q={_quoted(question)}" if question else ""
    tabs = [
        e(
            "a",
            f"{titles[name]} {counts[name]:,}",
            href=f"{ROOT}/?show={name}{more}",
            aria_current="true" if name == tab else None,
        )
        for name in _SHOW
    ]
    form = e(
        "form",
        e("span", "/", cls="f", aria_hidden="true"),
        e(
            "input",
            name="q",
            id="filter",
            value=question,
            placeholder="client:claude model:gemini* has:loss cost:>0.50",
            aria_label="Filter",
            autocomplete="off",
            spellcheck="false",
        ),
        e("input", type="hidden", name="show", value=tab) if tab != "all" else None,
        cls="filter grow",
        method="get",
        action=f"{ROOT}/",
        role="search",
    )
    return e("div", form, e("nav", tabs, cls="tabs", aria_label="Kinds of conversations"), cls="row wrap")


def _quoted(text: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415

    return quote(text, safe="")


def _table(view: View, shown: Sequence[ListedConversation], question: str, number: int) -> Element:
    headings = (
        ("State", ""),
        ("Conversation", ""),
        ("Model by turn, model now", ""),
        ("Turns", "r"),
        ("Repairs", "r"),
        ("Losses", "r"),
        ("Cache share", ""),
        ("Cost", "r"),
        ("Last use", "r"),
    )
    head = e("tr", [e("th", title, cls=kind or None, scope="col") for title, kind in headings])
    lines: Iterable[Node] = [
        e("tr", _cells(view, row), data_row=row.id, data_href=f"{ROOT}/c/{row.id}") for row in shown
    ]
    body = e("table", e("thead", head), e("tbody", lines, id="rows"), cls="stack lead-in convs")
    return e("div", body, None if shown else _empty(question, number))


def _empty(question: str, number: int) -> Element:
    if number and question:
        return e(
            "div",
            e("p", "No conversation fits ", e("code", question), "."),
            e("p", f"{number:,} do without it. ", e("kbd", "esc"), " clears the filter.", cls="q gap8"),
            cls="empty",
        )
    if number:
        return e("div", e("p", "No conversation is of this kind."), cls="empty")
    return e(
        "div",
        e("p", "No conversation has come through this gateway yet."),
        e(
            "p",
            e("code", "segue run claude"),
            " starts Claude Code through it; ",
            e("code", "segue env codex"),
            " prints the settings of another program.",
            cls="q gap8",
        ),
        cls="empty",
    )


def _cells(view: View, row: ListedConversation) -> list[Element]:
    under = " · ".join(
        part
        for part in (row.client, row.folder, row.caller if view.viewer.account.name != row.caller else "")
        if part
    )
    next_model = row.switched if row.switched and row.switched != row.route else ""
    share = row.cache_share
    return [
        e("td", marks.state(row.state), cls="st"),
        e(
            "td",
            e("a", row.title, cls="b", href=f"{ROOT}/c/{row.id}")
            if row.seen
            else e("span", row.title, cls="b"),
            e("span", under if row.seen else f"{under} · not seen by this process", cls="s f"),
            cls="title",
        ),
        e(
            "td",
            marks.turn_strip(row.routes)
            if row.routes
            else marks.turn_strip([row.route] if row.route else []),
            e(
                "span",
                marks.short_name(row.route) if row.route else "–",
                f" → {marks.short_name(next_model)} next" if next_model else "",
                cls="s q",
            ),
            cls="turns",
        ),
        _number(row.turns, "turns", known=row.seen),
        _number(row.repairs, "repairs", known=row.seen),
        e(
            "td",
            [e("span", "−", cls="bad"), f" {row.losses}"]
            if row.losses
            else e("span", "0" if row.seen else "–", cls="zero"),
            cls="r ct",
            data_l="losses",
        ),
        e(
            "td",
            e("span", words.NO_DATA, cls="f")
            if share is None
            else e(
                "span",
                e("span", marks.share_bar([("t-write", share)]), cls="wide"),
                e("span", words.percent(share), cls="nw"),
                cls="row",
            ),
            cls="ct",
            data_l="cache",
        ),
        e(
            "td",
            e("span", words.cost(row.dollars, 2), cls="zero")
            if not row.dollars
            else words.cost(row.dollars, 2),
            cls="r co",
        ),
        e("td", words.moment(row.updated, view.now) if row.updated else "", cls="r f nw la"),
    ]


def _number(number: int, label: str, *, known: bool) -> Element:
    shown: Node = f"{number:,}" if number else e("span", "0" if known else "–", cls="zero")
    return e("td", shown, cls="r ct", data_l=label)

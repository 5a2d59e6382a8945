"""One conversation: who answers now and who chose it, where it changed, what the new one did not see, what each turn cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from segue.conversation.blocks import ToolResult
from segue.inspector.export import exported
from segue.inspector.markup import charts, marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import (
    ROOT,
    Page,
    button,
    conversation_tabs,
    crumb,
    head,
    link_button,
    table,
)
from segue.inspector.pages.other_model import candidates, window_of
from segue.inspector.pages.overview import state_of
from segue.inspector.views.cache_causes import misses_of
from segue.inspector.views.chat_view import (
    Seam,
    ShownCall,
    ShownText,
    ShownThought,
    ShownTurn,
    seals_of,
    seams_of,
    turns_of,
)
from segue.inspector.views.timing import client_pause, slowest, time_of, time_of_all
from segue.providers.token_counts import family_of, text_tokens, texts_of
from segue.providers.token_counts import json_text as json_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.conversation.message import Conversation
    from segue.inspector.page_request import View
    from segue.inspector.record.records import ConversationRecord, RequestRecord
    from segue.inspector.views.cache_causes import RequestCache

_MARKS: Final = {
    "done": ("good", "✓"),
    "failed": ("bad", "✕"),
    "interrupted": ("warn", "–"),
    "open": ("f", "·"),
}
_WINDOW_CLASSES: Final = {
    "system": "f-text",
    "tools": "f-accent",
    "tool results": "f-q",
    "messages": "f-strong",
}
_FOLDED: Final = 40
"""Turns that are shown open; of a longer conversation the earlier ones are folded."""


def page(view: View, name: str) -> Page:
    known = view.conversation(name)
    said, requests = view.said(known), list(known.requests)
    if form := view.query.get("export", ""):
        return exported(said, known, form)
    turns, seams = turns_of(said, requests, known.turns), seams_of(requests)
    ahead = len(turns) - known.turns
    most = max((turn.usage.total_tokens or 0 for turn in turns), default=1)
    misses = misses_of(requests)
    shown: list[Node] = []
    early = max(len(turns) - _FOLDED, 0)
    for place, turn in enumerate(turns):
        if (seam := seams.get(place + 1 - ahead)) is not None:
            shown.append(seam_block(seam))
        lost = [misses[one].said for one in turn.requests if one in misses and misses[one].cause != "model"]
        fork = (
            button("Fork here", "fork", quiet=True, conversation=known.id, turn=turn.number)
            if said is not None
            else None
        )
        shown.append(turn_article(turn, most, lost, fork, is_folded=place < early))
    body = [
        crumb(("Conversations", "/"), (known.id, "")),
        _head(view, known, requests),
        _who_chose(view, known),
        plot(requests, misses),
        _slowest(requests),
        _context(view, known, said),
        _seals(said),
        conversation_tabs(known.id, known.request_count, "chat"),
        _no_content(view, known) if said is None else None,
        e("div", shown, id="turns"),
    ]
    return Page(
        title=view.title(known),
        tab="conversations",
        body=body,
        data={
            "conversation": _data(view, known),
            "turns": turns,
            "seams": list(seams.values()),
            "misses": list(misses.values()),
        },
        keys=(("j k", "turns"), ("s", "switch"), ("f", "fork here"), ("x", "seams"), ("y", "copy link")),
        live=True,
    )


def _data(view: View, known: ConversationRecord) -> dict[str, object]:
    info = view.stored.get(known.id)
    return {
        "id": known.id,
        "title": view.title(known),
        "client": known.client,
        "wire": known.wire,
        "asked": known.asked,
        "route": known.route,
        "switched": info.switched if info is not None else known.switched,
        "turns": known.turns,
        "requests": known.request_count,
        "repairs": known.repairs,
        "losses": known.losses,
        "distinct_repairs": known.distinct_repairs,
        "usage": known.usage,
        "dollars": known.dollars,
        "state": state_of(view, known)[0],
        "time": time_of_all(known.requests),
    }


def _head(view: View, known: ConversationRecord, requests: Sequence[RequestRecord]) -> Element:
    calls = sum(one.calls for one in requests)
    seconds = sum(attempt.seconds for one in requests for attempt in one.attempts)
    readable = view.may_read(known.id, known.caller)
    line = " · ".join(
        part
        for part in (
            marks.client_title(known.client),
            known.folder if readable else "",
            f"caller {known.caller}" if known.caller != view.viewer.name else "",
            f"{words.count(known.turns, 'turn')}, {words.count(known.request_count, 'request')}, {words.count(calls, 'call')}",
            f"{words.seconds(seconds)} of model time",
            words.cost(known.dollars),
            _repairs(known),
        )
        if part
    )
    switch: Node = None
    if known.caller == view.viewer.name or view.viewer.is_operator:
        switch = _switcher(view, known)
    exports = e(
        "details",
        e("summary", "Export", cls="btn"),
        e(
            "div",
            [
                e("a", title, href=f"{ROOT}/c/{known.id}?export={form}", download=True)
                for form, title in (
                    ("html", "HTML, to read"),
                    ("conversation", "JSON of segue"),
                    ("anthropic", "Anthropic Messages"),
                    ("openai_chat", "OpenAI Chat"),
                    ("openai_responses", "OpenAI Responses"),
                    ("gemini", "Gemini"),
                )
            ],
            cls="menu",
        ),
        cls="drop",
    )
    more = (
        [button("Fork", "fork", conversation=known.id, turn=0), exports]
        if view.said(known) is not None
        else []
    )
    return head(view.title(known), line, switch, *more)


def _repairs(known: ConversationRecord) -> str:
    said = f"{words.repairs(known.repairs, known.losses)}, in all requests"
    distinct = known.distinct_repairs
    return f"{said} (at {words.count(distinct, 'distinct place')})" if distinct < known.repairs else said


def _switcher(view: View, known: ConversationRecord) -> list[Node]:
    info = view.stored.get(known.id)
    now = (info.switched if info is not None else known.switched) or known.route
    names = [route.name for route in candidates(view, known)]
    options = [
        e("option", name.partition("/")[2] or name, value=name, selected=name == now)
        for name in dict.fromkeys([*([now] if now else []), *names])
    ]
    chosen = info is not None and info.switched
    return [
        e("label", "next turn", cls="q s", for_="next-model"),
        e("select", options, id="next-model", cls="pick", data_mark=marks.family_of(now).name),
        button("Switch", "switch", main=True, conversation=known.id, key="s"),
        button("Let the client decide", "switch-back", quiet=True, conversation=known.id) if chosen else None,
    ]


def _who_chose(view: View, known: ConversationRecord) -> Element:
    info = view.stored.get(known.id)
    switched = info.switched if info is not None else known.switched
    wait = e("span", " A switch waits for the next message; a turn that runs keeps its model.", cls="wide")
    if switched:
        entry = view.audit.last("switched", f"{known.id} to {switched}")
        by = ""
        if entry is not None:
            who = "you" if entry.who == view.viewer.name else entry.who
            by = f" ({who}, {words.clock(entry.at)})"
        return e(
            "p",
            f"Chosen by a switch{by}: ",
            marks.model(switched, whole=True),
            " answers from the next turn on; the client asks for ",
            e("code", known.asked),
            ".",
            wait,
            cls="s f",
        )
    try:
        routes = [route.name for route in view.gateway.names.router(known.asked).routes]
    except Exception:
        routes = []
    means: Node = " names it itself."
    if routes and routes != [known.asked]:
        means = f" stands for {', then '.join(routes)}."
    return e("p", "Chosen by the configuration: ", e("code", known.asked or "–"), means, wait, cls="s f")


def plot(requests: Sequence[RequestRecord], misses: Mapping[str, RequestCache]) -> Node:
    lost = {name: "cold" for name, miss in misses.items() if miss.cause == "model"}
    lost |= {one.id: "failover" for one in requests if one.failovers}
    lost |= {name: "cache lost" for name, miss in misses.items() if miss.cause != "model"}
    drawn = charts.tokens_of_requests(requests, lost)
    if drawn is None:
        return None
    step = e("path", cls="g-text", stroke_width="1.4", d="M0 5H8V1H16")
    so_far = e("span", e("svg", step, width=16, height=6, aria_hidden="true"), "cost so far", cls="key end")
    return [e("div", marks.token_keys(), so_far, cls="row wrap gap16"), drawn]


def _slowest(requests: Sequence[RequestRecord]) -> Node:
    said = slowest(time_of_all(requests))
    return e("p", said, cls="s q") if said else None


def window_parts(said: Conversation, model: str, tools: object, total: int) -> list[tuple[str, int]]:
    """What fills the window, by estimate, scaled so that the parts add up to `total`; the largest first."""
    family = family_of(model)
    parts = {"system": text_tokens(said.system, family), "messages": 0.0, "tool results": 0.0, "tools": 0.0}
    for message in said.messages:
        for block in message.blocks:
            tokens = sum(text_tokens(text, family) for text in texts_of(block))
            parts["tool results" if type(block) is ToolResult else "messages"] += tokens
    parts["tools"] = text_tokens(json_bytes(tools), family) if tools else 0.0
    scale, found = total / (sum(parts.values()) or 1.0), list[tuple[str, int]]()
    so_far = 0.0
    for name, tokens in parts.items():
        before, so_far = round(so_far), so_far + tokens * scale
        if (number := round(so_far) - before) > 0:
            found.append((name, number))
    return sorted(found, key=lambda part: -part[1])


def _context(view: View, known: ConversationRecord, said: Conversation | None) -> Node:
    last = next((one for one in reversed(known.requests) if one.usage.input_tokens), None)
    if last is None:
        return None
    total, window = last.usage.input_tokens or 0, window_of(view, last.route)
    of = f" of {words.short(window)} tokens in the window" if window else " tokens in the last request"
    parts: list[tuple[str, int]] = []
    if said is not None:
        turn = known.last_turn
        tools = [structs.asdict(tool) for tool in turn.tools] if turn is not None else []
        sent = said.messages[:-1] if said.messages and said.messages[-1].speaker == "model" else said.messages
        parts = window_parts(structs.replace(said, messages=sent), last.route, tools, total)
    shares = [(_WINDOW_CLASSES[name], number / total) for name, number in parts]
    keys = [marks.key(_WINDOW_CLASSES[name], f"{name} {words.thousands(number)}") for name, number in parts]
    return e(
        "div",
        e("span", e("b", words.thousands(total)), of, cls="s q nw"),
        [
            marks.share_bar(shares, 200),
            e("span", keys, cls="keys"),
            e("span", _parts_note(last), cls="s f"),
        ]
        if parts
        else None,
        cls="row wrap ctx",
    )


def _parts_note(last: RequestRecord) -> str:
    if last.usage_estimated:
        return "all of it is estimated: the provider reported no counts"
    return "parts estimated, scaled to what the provider counted"


def _seals(said: Conversation | None) -> Node:
    """Whether one can go back to a model: what only it can open is kept, and sent to it alone."""
    kept = seals_of(said) if said is not None else {}
    if not kept:
        return None
    shown = [
        [" · " if place else None, marks.model(route), f" ({number:,})"]
        for place, (route, number) in enumerate(kept.items())
    ]
    return e("p", "✓ Signatures kept in this conversation for the way back: ", shown, cls="s q seals")


def _no_content(view: View, known: ConversationRecord) -> Element:
    if not view.may_read(known.id, known.caller):
        return e(
            "p",
            "What this caller said is not shown to operators. ",
            button("Show it; this is noted", "reveal", conversation=known.id),
            cls="s gap8 q",
        )
    why: Node = (
        "The words of this conversation are forgotten: newer ones needed the room."
        if view.recorder.content
        else ["This gateway records no content (", e("code", "gateway.inspect.content = off"), ")."]
    )
    return e("p", why, " Tokens, times, repairs and costs are below.", cls="s gap8 q")


def turn_article(
    turn: ShownTurn,
    most: int,
    lost: Sequence[str],
    fork: Node = None,
    *,
    is_folded: bool = False,
    linked: bool = True,
) -> Element:
    """`linked`: its requests have pages."""
    parts = [_part(part) for part in turn.parts]
    inner: Node = parts
    if is_folded and parts:
        inner = e("details", e("summary", words.count(len(parts), "part"), cls="foldrow"), parts)
    return e(
        "article",
        e("div", str(turn.number), cls="n"),
        e("div", e("h2", turn.asked or f"Turn {turn.number}", cls="say"), inner),
        _margin(turn, most, lost, fork, linked=linked),
        cls="turn",
        id=f"t{turn.number}",
        tabindex="-1",
        data_item=True,
    )


def _part(part: ShownThought | ShownCall | ShownText) -> Element:
    match part:
        case ShownThought(text, tokens, sealed_by):
            line = " · ".join(
                word
                for word in (
                    "reasoning",
                    f"about {words.thousands(tokens)} tokens" if tokens else "text kept by its provider",
                    f"sealed by {sealed_by}" if sealed_by else "not sealed",
                )
                if word
            )
            if not text.strip():
                return e("p", line, cls="seal")
            return e("details", e("summary", line), e("p", text, cls="pre"), cls="seal")
        case ShownCall():
            return _call(part)
        case ShownText(text):
            return e("p", text, cls="pre")


def _call(call: ShownCall) -> Element:
    kind, sign = _MARKS[call.state]
    state = {"done": "", "failed": "failed", "interrupted": "interrupted", "open": "no result yet"}[
        call.state
    ]
    line = [
        e("span", sign, cls=kind, title=call.state),
        e("span", e("b", call.name), f" {call.about}"),
        e("span", state, cls=f"f {kind}" if state else "f"),
    ]
    more = [e("pre", call.arguments, cls="code") if call.arguments else None]
    if call.whole_result:
        more.append(e("pre", call.whole_result, cls="code"))
    return e(
        "details",
        e("summary", line, e("span", call.result, cls="out")),
        more,
        cls="call",
    )


def _margin(turn: ShownTurn, most: int, lost: Sequence[str], fork: Node, *, linked: bool) -> Element:
    read, written, fresh, output = marks.token_parts(turn.usage)
    tokens = " · ".join(
        f"{words.short(number)} {name}"
        for number, name in ((read, "read"), (written, "written"), (fresh, "fresh"))
        if number
    )
    number = words.count(len(turn.requests), "request")
    if not turn.requests:
        link = e("span", "before this gateway", cls="f")
    elif linked:
        link = e("a", number, cls="link", href=f"{ROOT}/r/{turn.requests[0]}")
    else:
        link = e("span", number)
    note: Node = None
    if turn.errors:
        note = e("span", f"✕ {turn.errors[-1]}", cls="bad")
    elif lost:
        note = e("span", f"✕ cache lost: {lost[0]}", cls="warn")
    elif turn.interrupted:
        note = e("span", f"– {words.count(turn.interrupted, 'call')} interrupted", cls="warn")
    elif turn.failovers:
        note = e("span", words.count(turn.failovers, "failover"))
    return e(
        "aside",
        e(
            "div",
            marks.model(turn.route) if turn.route else e("span"),
            words.moment(turn.began) if turn.began else None,
            cls="row",
        ),
        marks.token_bar(turn.usage, most) if turn.requests else None,
        e("div", e("span", tokens or ("no counts" if turn.requests else "")), cls="row"),
        e(
            "div",
            e("span", f"{words.short(output)} output"),
            e("span", words.seconds(turn.seconds)),
            e("span", words.cost(turn.dollars), cls="b"),
            cls="row",
        )
        if turn.requests
        else None,
        e("div", e("span", link, cls="nw"), None if lost else note, cls="row"),
        note if lost and not turn.errors else None,
        e("div", fork, cls="row act"),
        cls="margin",
        aria_label=f"Figures of turn {turn.number}",
    )


def seam_block(seam: Seam) -> Element:
    carried = [words.count(seam.messages, "message") + " carried over"]
    carried += [f"{one} not visible to it" for one in seam.not_visible]
    if seam.not_visible:
        carried.append("kept for the way back")
    if seam.restored:
        carried.append(
            f"✓ {words.count(seam.restored, 'earlier reply', 'earlier replies')} restored as their models gave them"
        )
    if seam.cached:
        carried.append(f"its cache was still warm: {words.thousands(seam.cached)} tokens read")
    return e(
        "div",
        e("div", "⇄", cls="ic", aria_hidden="true"),
        e(
            "div",
            e(
                "div",
                marks.model(seam.before, bold=True),
                e("span", "→", cls="f"),
                marks.model(seam.after, bold=True),
                e("span", f"{seam.how}, ", words.moment(seam.at), cls="q"),
                cls="row wrap",
            ),
            e("div", seam.why, cls="q") if seam.why else None,
            e("div", " · ".join(carried), cls="q"),
        ),
        e("div", link_button("What it got", f"{ROOT}/r/{seam.request}", quiet=True), cls="act"),
        cls="seam",
        id=f"s{int(seam.at)}",
        data_seam=True,
        tabindex="-1",
        role="group",
        aria_label=f"From {seam.before} to {seam.after}",
    )


def requests_page(view: View, name: str) -> Page:
    """All requests of a conversation, one row each."""
    known = view.conversation(name)
    requests = list(known.requests)
    rows = []
    for place, one in enumerate(requests):
        before = requests[place - 1] if place else None
        counts = _repairs_cell(one)
        rows.append(
            e(
                "tr",
                e("td", e("a", str(one.number), cls="link", href=f"{ROOT}/r/{one.id}"), cls="r"),
                e("td", f"turn {one.turn}" if one.begins_turn else "", cls="f"),
                e("td", marks.model(one.route) if one.route else "–"),
                e("td", words.moment(one.began)),
                e("td", words.seconds(pause) if (pause := client_pause(before, one)) else "", cls="r f"),
                e("td", words.seconds(time_of(one).gateway), cls="r f"),
                e("td", words.seconds(one.first_content), cls="r"),
                e("td", words.seconds(one.seconds), cls="r"),
                e("td", words.thousands(one.usage.input_tokens), cls="r"),
                e("td", words.thousands(one.usage.output_tokens), cls="r"),
                e("td", counts, cls="r"),
                e("td", words.cost(one.dollars), cls="r"),
                e(
                    "td",
                    e("span", f"✕ {one.error}", cls="bad")
                    if one.error
                    else ("as it came" if one.forwarded else "rendered"),
                ),
                data_href=f"{ROOT}/r/{one.id}",
                data_row=one.id,
            )
        )
    headings = (
        ">Request",
        "Turn",
        "Model",
        "Time",
        ">Client before it",
        ">Gateway itself",
        ">First content at",
        ">Ends at",
        ">Input",
        ">Output",
        ">Repairs, of them losses",
        ">Cost",
        "How",
    )
    body = [
        crumb(("Conversations", "/"), (view.title(known), f"/c/{known.id}"), ("requests", "")),
        head(
            "Requests",
            f"{words.count(known.request_count, 'request')} of this conversation, oldest first, "
            f"with {words.repairs(known.repairs, known.losses)}. First content and end are counted from when the client’s "
            "request came.",
        ),
        conversation_tabs(known.id, known.request_count, "requests"),
        table(headings, rows, kind="tight", label="Requests"),
    ]
    return Page(
        title="Requests",
        tab="conversations",
        body=body,
        data={"requests": [summary(one) for one in requests]},
        keys=(("j k", "move"), ("enter", "open")),
    )


def _repairs_cell(one: RequestRecord) -> Node:
    repairs, losses = len(one.repairs), len(one.losses)
    if not repairs:
        return e("span", "0", cls="zero")
    lost = e("span", words.count(losses, "loss", "losses"), cls="bad")
    return [str(repairs), [", ", lost] if losses else None]


def summary(one: RequestRecord) -> dict[str, object]:
    """A request as data, without what was said."""
    hidden = {"content", "pieces"}
    shown = {name: getattr(one, name) for name in one.__struct_fields__ if name not in hidden}
    return {**shown, "gateway_seconds": time_of(one).gateway}

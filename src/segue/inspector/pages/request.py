"""One request: what the client sent, what the provider got, what was changed by which rule, which attempt answered, when."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import msgspec

from segue.conversation.blocks import Reasoning, Text, ToolCall
from segue.inspector.markup import charts, marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import ROOT, Page, button, crumb, head, link_button, section, table
from segue.inspector.page_request import not_found
from segue.inspector.pages.conversation import summary
from segue.inspector.views.change_list import change_items, changes_of
from segue.inspector.views.json_text import formatted
from segue.inspector.views.row_markup import block_line, fold, pair
from segue.inspector.views.timing import client_pause, time_of
from segue.inspector.views.wire_rows import ids_written, rows_of
from segue.text.redaction import redact_text

if TYPE_CHECKING:
    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.inspector.page_request import View
    from segue.inspector.record.records import AttemptRecord, RequestContent, RequestRecord

_BODIES: Final = {
    "client": "What the client sent",
    "provider": "What the provider got",
    "answer": "The answer, as segue keeps it",
}
_MOST_LINES: Final = 5000
"""Of a body that is shown; its exact bytes are a click away."""
_OPEN_ROWS: Final = 4
"""Steps at the end that are shown open."""


def page(view: View, name: str) -> Page:
    one = view.request(name)
    content = view.content(one)
    if raw := view.query.get("raw", ""):
        return _raw(one, content, raw, download="save" in view.query)
    if form := view.query.get("body", ""):
        return _body_page(one, content, form)
    known = view.recorder.conversations.get(one.conversation)
    title = view.title(known) if known is not None else one.conversation
    siblings = list(known.requests) if known is not None else [one]
    place = next((number for number, other in enumerate(siblings) if other is one), 0)
    before = siblings[place - 1] if place else None
    after = siblings[place + 1] if place + 1 < len(siblings) else None
    changes = changes_of(one.repairs, one.dialect)
    total = known.request_count if known is not None else 1
    body = [
        crumb(
            ("Conversations", "/"),
            *([(title, f"/c/{one.conversation}")] if known is not None else []),
            (f"turn {one.turn}", f"/c/{one.conversation}#t{one.turn}" if known is not None else ""),
            (one.id, ""),
        ),
        head(
            f"Request {one.number} of {total}" if one.number else "Request",
            _line(one),
            link_button(f"‹ {before.number}", f"{ROOT}/r/{before.id}", quiet=True, data_nav="k")
            if before
            else None,
            link_button(f"{after.number} ›", f"{ROOT}/r/{after.id}", quiet=True, data_nav="j")
            if after
            else None,
            button("Copy as cURL", "copy", path=f"{ROOT}/r/{one.id}?raw=curl", key="c") if content else None,
            _raw_menu(one) if content else None,
            link_button(f"Diff to request {before.number}", f"{ROOT}/r/{one.id}/diff", data_nav="d")
            if before
            else None,
        ),
        _timing(one, client_pause(before, one)),
        _error(one),
        _columns(one, content) if content is not None else _without(view, one),
    ]
    return Page(
        title=f"Request {one.number}",
        tab="conversations",
        body=body,
        data={"request": summary(one), "changes": changes},
        foot=e("span", "Keys, cookies and tokens were cut out before this was recorded."),
        keys=(
            ("1–4", "fold columns"),
            ("n N", "next change"),
            ("j k", "next request"),
            ("d", "diff"),
            ("r", "raw"),
            ("c", "cURL"),
        ),
    )


def _line(one: RequestRecord) -> Node:
    parts: list[Node] = ["asked for ", marks.model(one.asked, whole=True)]
    if one.switched:
        parts += [", switched to ", marks.model(one.switched, whole=True)]
    if one.route:
        parts += [", answered by " if not one.error else ", put to ", marks.model(one.route, whole=True)]
    if one.failovers:
        parts.append(" after a failover")
    usage = one.usage
    figures = [
        f"{words.thousands(usage.input_tokens)} in, {words.thousands(usage.output_tokens)} out"
        + (" (estimated)" if one.usage_estimated else ""),
        words.cost(one.dollars),
        "sent as it came" if one.forwarded else "",
        "continues a turn" if one.stays else "",
        _billed(one),
    ]
    return [*parts, " · " + " · ".join(part for part in figures if part)]


def _billed(one: RequestRecord) -> str:
    failed = [attempt for attempt in one.attempts if attempt.error]
    if not failed:
        return ""
    twice = [attempt for attempt in failed if attempt.usage.total_tokens]
    return "nothing billed twice" if not twice else f"{words.count(len(twice), 'failed attempt')} billed too"


def _raw_menu(one: RequestRecord) -> Element:
    return e(
        "details",
        e("summary", "Raw", cls="btn", data_key="r"),
        e(
            "div",
            [
                *[e("a", title, href=f"{ROOT}/r/{one.id}?body={form}") for form, title in _BODIES.items()],
                e("a", "As cURL, without the key", href=f"{ROOT}/r/{one.id}?raw=curl"),
            ],
            cls="menu",
        ),
        cls="drop",
    )


def _body_page(one: RequestRecord, content: RequestContent | None, form: str) -> Page:
    """A body, formatted for reading."""
    data, path = _body(content, form), f"{ROOT}/r/{one.id}"
    text = formatted(data, _MOST_LINES)
    return Page(
        title=_BODIES[form],
        tab="conversations",
        body=[
            crumb(
                ("Conversations", "/"), (f"request {one.number}", f"/r/{one.id}"), (_BODIES[form].lower(), "")
            ),
            head(
                _BODIES[form],
                f"{words.size(len(data))}, indented for reading.",
                link_button("Back to the request", path),
                link_button("Exact bytes", f"{path}?raw={form}"),
                link_button("Save", f"{path}?raw={form}&save", download=""),
            ),
            e("pre", text, cls="code scroll", tabindex="0"),
        ],
        data={"form": form, "text": text},
    )


def _body(content: RequestContent | None, form: str) -> bytes:
    """Its exact bytes."""
    if content is None:
        raise not_found("content")
    match form:
        case "client":
            return content.client.data()
        case "provider":
            return content.provider.data() if content.provider is not None else b""
        case "answer":
            return msgspec.json.format(msgspec.json.encode(content.answer), indent=2)
        case _:
            raise not_found("form")


def _raw(one: RequestRecord, content: RequestContent | None, form: str, *, download: bool) -> Page:
    if form == "curl":
        data = _curl(one, _body(content, "provider") or _body(content, "client"))
    else:
        data = _body(content, form)
    name = f"request-{one.number or 1}.{'sh' if form == 'curl' else 'json'}" if download else ""
    return Page(title="Raw", tab="conversations", body=None, data=data, download=name)


def _curl(one: RequestRecord, body: bytes) -> bytes:
    """A command that sends the same again. The key is left out: the shell puts $KEY in."""
    last = next((attempt for attempt in reversed(one.attempts) if attempt.url), None)
    url = last.url if last is not None else f"http://127.0.0.1:8484{one.path}"
    headers = _KEY_HEADERS.get(last.dialect if last is not None else one.wire, _BEARER)
    lines = [f"curl {shlex.quote(url)}", "-H 'content-type: application/json'", *headers]
    sent = redact_text(body.decode("utf-8", "replace"))
    return " \\\n  ".join([*lines, f"--data-binary {shlex.quote(sent)}\n"]).encode()


_BEARER: Final = ('-H "authorization: Bearer $KEY"',)
_KEY_HEADERS: Final = {
    "anthropic": ('-H "x-api-key: $KEY"', "-H 'anthropic-version: 2023-06-01'"),
    "gemini": ('-H "x-goog-api-key: $KEY"',),
}


# Timing


def _timing(one: RequestRecord, pause: float | None) -> Element:
    """`pause`: seconds that the client took before it."""
    lanes = [
        charts.Lane(
            title="segue: read, plan, render, remember",
            bars=tuple([("f-text", start, end) for start, end in _gateway_bars(one)]),
            note=f"ends at {words.seconds(one.seconds)}",
        )
    ]
    commit = None
    for number, attempt in enumerate(one.attempts, 1):
        lanes.append(_lane(number, attempt, is_last=number == len(one.attempts)))
        if attempt.first_content is not None and one.stream:
            commit = attempt.after + attempt.first_content
    keys = [
        marks.key("f-strong", "refused or failed"),
        marks.key("t-read", "wait for first byte"),
        marks.key("t-write", "first content"),
        marks.key("t-fresh", "stream"),
    ]
    rows = [
        e(
            "tr",
            e("td", str(number)),
            e("td", attempt.route),
            e("td", words.seconds(attempt.after), cls="r"),
            e("td", _since_start(attempt, attempt.first_bytes), cls="r"),
            e("td", _since_start(attempt, attempt.first_content), cls="r"),
            e("td", _since_start(attempt, attempt.seconds), cls="r"),
            e("td", f"{attempt.status or ''} {attempt.error}".strip() or "answered"),
        )
        for number, attempt in enumerate(one.attempts, 1)
    ]
    return e(
        "section",
        e(
            "div",
            e("h2", "Timing"),
            e("span", _own_times(one, pause), cls="q s"),
            e("span", keys, cls="end keys wide"),
            cls="row wrap",
        ),
        charts.waterfall(lanes, max(one.seconds, 0.001), commit),
        e(
            "details",
            e("summary", "The same as a table", cls="foldrow"),
            table(
                ("Attempt", "Route", ">Begins at", ">First byte at", ">First content at", ">Ends at", "How"),
                rows,
                kind="tight",
                label="Attempts",
            ),
        ),
    )


def _gateway_bars(one: RequestRecord) -> list[tuple[float, float]]:
    """When no provider had the request: before the first attempt, between two, and after the last."""
    starts = [0.0, *(attempt.after + attempt.seconds for attempt in one.attempts)]
    ends = [*(attempt.after for attempt in one.attempts), one.seconds]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]


def _own_times(one: RequestRecord, pause: float | None) -> str:
    """Of the gateway, and of the client before the request."""
    client = f"before it the client took {words.seconds(pause)}; " if pause else ""
    gateway = f"the gateway itself took {words.seconds(time_of(one).gateway)}"
    return f"{client}{gateway}; all times count from when the client’s request came"


def _since_start(attempt: AttemptRecord, passed: float | None) -> str:
    """`passed`: seconds since the attempt began."""
    return words.seconds(None if passed is None else attempt.after + passed)


def _lane(number: int, attempt: AttemptRecord, *, is_last: bool) -> charts.Lane:
    end = attempt.after + attempt.seconds
    if attempt.error:
        note = f"{attempt.status or ''} {attempt.error}".strip()
        return charts.Lane(
            title=f"{number} {attempt.route.partition('/')[2]}",
            route=attempt.route,
            bars=(("f-strong", attempt.after, end),),
            note=note,
            bad=True,
        )
    content = attempt.first_content if attempt.first_content is not None else attempt.seconds
    came = attempt.after + (attempt.first_bytes if attempt.first_bytes is not None else content)
    first = attempt.after + content
    return charts.Lane(
        title=f"{number} {attempt.route.partition('/')[2]}",
        route=attempt.route,
        bars=(("t-read", attempt.after, came), ("t-write", came, first), ("t-fresh", first, end)),
        note=f"ends at {words.seconds(end)}",
        bold=is_last,
    )


def _error(one: RequestRecord) -> Node:
    failed = [attempt for attempt in one.attempts if attempt.words]
    if not failed and not one.error:
        return None
    said = [
        [
            e("p", f"{attempt.status or ''} {attempt.words}".strip(), cls="err"),
            e("p", f"{attempt.route}, attempt {number}", cls="s f"),
        ]
        for number, attempt in enumerate(one.attempts, 1)
        if attempt.words
    ]
    seen = (
        f"It reached the client as {one.status} ({one.error})."
        if one.error
        else "It did not reach the client: another attempt answered."
    )
    return section("What failed", said, e("p", seen, cls="s q gap8"))


# Columns


def _columns(one: RequestRecord, content: RequestContent) -> Element:
    client, provider = (
        content.client.data(),
        content.provider.data() if content.provider is not None else b"",
    )
    rows = rows_of(client, provider or client, one.wire, one.dialect or one.wire, one.repairs)
    written = ids_written(rows)
    early = max(len(rows) - _OPEN_ROWS, 1)
    folded, shown = rows[1:early], rows[early:]
    losses = len(one.losses)
    tabs = [
        e(
            "button",
            title,
            type="button",
            data_tab=name,
            aria_pressed="true" if name == "provider" else "false",
        )
        for name, title in (
            ("client", "Client sent"),
            ("canonical", "As segue keeps it"),
            ("provider", "Provider got"),
            ("answer", "Answer"),
            ("changes", words.count(len(one.repairs), "repair")),
        )
    ]
    wires = (
        f"{one.wire.replace('_', ' ')} · {words.size(len(client))}",
        f"{one.dialect.replace('_', ' ')} · {words.size(len(provider))}",
    )
    return e(
        "section",
        e("h2", "The request in four forms", cls="hide"),
        e("div", tabs, cls="tabs only-narrow", role="group", aria_label="Columns"),
        e(
            "div",
            e(
                "div",
                e(
                    "div",
                    _column_head("client", "Client sent", wires[0], 1),
                    _column_head("canonical", "As segue keeps it", "for any provider", 2),
                    _column_head("provider", "Provider got", wires[1], 3),
                    cls="pair heads",
                ),
                pair(rows[0]),
                fold(folded),
                [pair(row) for row in shown],
                cls="pairs",
            ),
            e(
                "div",
                _column_head("answer", "Answer", words.size(one.reply_bytes), 4),
                _answer(one, content.answer),
                cls="col answer",
                data_col="answer",
            ),
            e(
                "div",
                e(
                    "div",
                    e("h3", words.count(len(one.repairs), "repair")),
                    e("span", words.losses(losses), cls="f s") if losses else None,
                    e("span", e("kbd", "n"), " ", e("kbd", "N"), cls="end f s wide"),
                    cls="colhead row",
                ),
                e("ol", change_items(one.repairs, one.dialect), cls="why")
                if one.repairs
                else e("p", "Nothing had to be changed.", cls="q s gap8"),
                e("p", _written(written), cls="q s gap8") if written else None,
                cls="col side",
                data_col="changes",
            ),
            cls="req no-canonical",
            id="req",
        ),
        cls="gap16",
    )


def _written(number: int) -> str:
    return f"{words.count(number, 'id')} of calls written for this provider; the client keeps its own. No repair: each provider has its own form."


def _column_head(name: str, title: str, small: str, number: int) -> Element:
    return e(
        "div",
        e(
            "button",
            e("span", "▾", aria_hidden="true"),
            e("span", title, cls="b"),
            type="button",
            cls="plain fold-col",
            data_fold=name,
            aria_expanded="false" if name == "canonical" else "true",
            title=f"Fold with {number}",
        ),
        e("span", small, cls="f s one"),
        cls="colhead row",
        data_col=name,
    )


def _answer(one: RequestRecord, answer: Message | None) -> Element:
    usage = one.usage
    facts = [
        e("span", f"{one.status} · {'streamed' if one.stream else 'whole'}\n", cls="k"),
    ]
    said: Node = (
        [[_answered(block), "\n"] for block in answer.blocks]
        if answer is not None
        else [one.error or "no answer", "\n"]
    )
    figures: list[Node] = [
        e("span", "usage ", cls="k"),
        f"{words.thousands(usage.input_tokens)} in · {words.thousands(usage.output_tokens)} out\n",
        e("span", "cached ", cls="k"),
        f"{words.thousands(usage.cached_tokens)}\n",
    ]
    same = one.forwarded
    got = (
        "The provider’s own bytes, but for the name of the model."
        if same
        else f"The same in the form of {one.wire.replace('_', ' ')}, under the name {one.asked}. The original, with its ids and signatures, is remembered for the next request."
    )
    return e(
        "div",
        e("div", facts, said, figures, cls="json"),
        e("h3", "What the client got", cls="gap8"),
        e("p", got, cls="s q"),
    )


def _answered(block: Block) -> Node:
    match block:
        case Text(text):
            return [e("span", "text\n", cls="k"), f'"{text[:4000]}"']
        case ToolCall():
            values = block.arguments if isinstance(block.arguments, dict) else {"": block.arguments}
            lines: list[Node] = [
                [e("span", f"  {name} ", cls="k"), words.plain_text(str(value), 300), "\n"]
                for name, value in values.items()
            ]
            return [
                e("span", f"call {block.native_id or block.id} ", cls="k"),
                e("b", block.name),
                "\n",
                lines,
            ]
        case Reasoning(text, seal):
            sealed = f" · sealed by {seal.origin.provider or seal.origin.dialect}" if seal is not None else ""
            return [e("span", f"reasoning{sealed}\n", cls="k"), text[:2000]]
        case _:
            return block_line(block)


def _without(view: View, one: RequestRecord) -> Node:
    why: Node = (
        "The words of this request are not recorded, or are forgotten."
        if view.recorder.content
        else ["This gateway records no content (", e("code", "gateway.inspect.content = off"), ")."]
    )
    return [
        e("p", why, " Tokens, times, repairs and costs are here.", cls="s gap16 q"),
        section(
            words.repairs(len(one.repairs), len(one.losses)),
            e("ol", change_items(one.repairs, one.dialect), cls="why wide-why")
            if one.repairs
            else e("p", "Nothing had to be changed.", cls="q gap8"),
        ),
    ]

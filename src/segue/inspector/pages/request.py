"""One request: what the client sent, what the provider got, what was changed by which rule, which attempt answered, when."""

from __future__ import annotations

import shlex
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

import msgspec

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.inspector.markup import charts, marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import ROOT, Page, button, crumb, head, link_button, section, table
from segue.inspector.page_request import not_found
from segue.inspector.pages.conversation import summary
from segue.inspector.record.pieces import value_in
from segue.inspector.views.change_list import change_items, changes_of
from segue.inspector.views.chat_view import about, short_result
from segue.inspector.views.wire_rows import BodyLine, Side, StepRow, rows_of
from segue.text.redaction import redact_text
from segue.transcript.blocks.value_text import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.inspector.page_request import View
    from segue.inspector.record.records import AttemptRecord, RequestContent, RequestRecord

_OPEN_ROWS: Final = 4
"""Steps at the end that are shown open."""
_MOST_DIFF: Final = 3000
_LONGEST_LINE: Final = 400


def page(view: View, name: str) -> Page:
    one = view.request(name)
    content = view.content(one)
    if raw := view.query.get("raw", ""):
        return _raw(one, content, raw, download="save" in view.query)
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
        _timing(one),
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
                e("a", title, href=f"{ROOT}/r/{one.id}?raw={form}")
                for form, title in (
                    ("client", "What the client sent"),
                    ("provider", "What the provider got"),
                    ("answer", "The answer, as segue keeps it"),
                    ("curl", "As cURL, without the key"),
                )
            ],
            cls="menu",
        ),
        cls="drop",
    )


def _raw(one: RequestRecord, content: RequestContent | None, form: str, *, download: bool) -> Page:
    if content is None:
        raise not_found("content")
    provider = content.provider.data() if content.provider is not None else b""
    match form:
        case "client":
            data = content.client.data()
        case "provider":
            data = provider
        case "answer":
            data = msgspec.json.format(msgspec.json.encode(content.answer), indent=2)
        case "curl":
            data = _curl(one, provider or content.client.data())
        case _:
            raise not_found("form")
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


def _timing(one: RequestRecord) -> Element:
    lanes = [
        charts.Lane(
            title="segue: read, plan, render",
            bars=(("f-text", 0.0, max(one.ready, 0.001)),),
            note=words.seconds(one.ready),
        )
    ]
    commit = None
    for number, attempt in enumerate(one.attempts, 1):
        lanes.append(_lane(number, attempt, is_last=number == len(one.attempts)))
        if attempt.first_content is not None and one.stream:
            commit = attempt.after + attempt.first_content
    keys = [
        marks.key("f-strong", "refused or failed"),
        marks.key("t-read", "wait for first content"),
        marks.key("t-fresh", "stream"),
    ]
    rows = [
        e(
            "tr",
            e("td", str(number)),
            e("td", attempt.route),
            e("td", words.seconds(attempt.after), cls="r"),
            e("td", words.seconds(attempt.first_content), cls="r"),
            e("td", words.seconds(attempt.seconds), cls="r"),
            e("td", f"{attempt.status or ''} {attempt.error}".strip() or "answered"),
        )
        for number, attempt in enumerate(one.attempts, 1)
    ]
    return e(
        "section",
        e("div", e("h2", "Timing"), e("span", keys, cls="end keys wide"), cls="row"),
        charts.waterfall(lanes, max(one.seconds, 0.001), commit),
        e(
            "details",
            e("summary", "The same as a table", cls="foldrow"),
            table(
                ("Attempt", "Route", ">Begins after", ">First content", ">Ends", "How"),
                rows,
                kind="tight",
                label="Attempts",
            ),
        ),
    )


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
    first = attempt.after + (attempt.first_content if attempt.first_content is not None else attempt.seconds)
    return charts.Lane(
        title=f"{number} {attempt.route.partition('/')[2]}",
        route=attempt.route,
        bars=(("t-read", attempt.after, first), ("t-fresh", first, end)),
        note=words.seconds(end),
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
            ("canonical", "Canonical"),
            ("provider", "Provider got"),
            ("answer", "Answer"),
            ("changes", f"{len(one.repairs)} changes"),
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
                    _column_head("canonical", "Canonical", "the form that segue keeps", 2),
                    _column_head("provider", "Provider got", wires[1], 3),
                    cls="pair heads",
                ),
                _pair(rows[0]),
                _fold(folded),
                [_pair(row) for row in shown],
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
                    e("h3", words.count(len(one.repairs), "change")),
                    e(
                        "span",
                        f"{len(one.repairs) - losses} repairs, {words.count(losses, 'loss', 'losses')}",
                        cls="f s",
                    ),
                    e("span", e("kbd", "n"), " ", e("kbd", "N"), cls="end f s wide"),
                    cls="colhead row",
                ),
                e("ol", change_items(one.repairs, one.dialect), cls="why")
                if one.repairs
                else e("p", "Nothing had to be changed.", cls="q s gap8"),
                cls="col side",
                data_col="changes",
            ),
            cls="req no-canonical",
            id="req",
        ),
        cls="gap16",
    )


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


def _fold(rows: Sequence[StepRow]) -> Node:
    if not rows:
        return None
    counts: dict[str, int] = {}
    for row in rows:
        for sign, code in row.marked:
            counts[f"{sign} {code}"] = counts.get(f"{sign} {code}", 0) + 1
    tags = [
        e("span", f"{mark[:1]} {number} × {mark[2:]}", cls=f"tag {_tag(mark[:1])}".strip())
        for mark, number in counts.items()
    ]
    first, last = rows[0].label.partition(" ")[0], rows[-1].label.partition(" ")[0].rpartition("–")[2]
    return e(
        "details",
        e("summary", e("span", f"messages {first.partition('–')[0]}–{last}"), tags, cls="foldrow"),
        [_pair(row) for row in rows],
        cls="early",
    )


def _tag(sign: str) -> str:
    return {"−": "loss", "+": "ok"}.get(sign, "")


def _pair(row: StepRow) -> Element:
    canonical = [_canonical(message) for message in row.messages]
    return e(
        "div",
        e("div", _side(row.client), cls="msg", data_col="client"),
        e(
            "div",
            e("div", canonical or e("span", row.label, cls="f"), cls="json"),
            cls="msg",
            data_col="canonical",
        ),
        e("div", _side(row.provider), cls="msg", data_col="provider"),
        cls="pair",
    )


def _side(side: Side | None) -> Node:
    if side is None:
        return e("span", "–", cls="f")
    more = e("div", f"… {side.more:,} more lines in the raw view", cls="foldrow") if side.more else None
    return [e("div", [_line_of(line) for line in side.lines], cls="json"), more]


def _line_of(line: BodyLine) -> Element:
    kind = {"~": "ch rw", "−": "ch no", "+": "ch add"}.get(line.sign, "ln1")
    tag = e("span", f"{line.sign} {line.code}", cls=f"tag {_tag(line.sign)}".strip()) if line.sign else None
    pad = " " * line.indent
    return e(
        "span",
        tag,
        pad,
        e("span", line.key, cls="k"),
        f" {line.value}" if line.value else "",
        "\n",
        cls=kind,
        data_mark=bool(line.sign),
    )


def _canonical(message: Message) -> Node:
    who = f"{message.speaker}{' (note)' if message.instruction else ''}"
    made = f" by {message.origin.model}" if message.origin is not None and message.origin.model else ""
    return [e("span", f"{who}{made}\n", cls="k"), [[_block(block), "\n"] for block in message.blocks]]


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return f' "{words.plain_text(text, 400)}"'
        case Reasoning(text, seal):
            return f" reasoning {len(text):,} characters{', sealed' if seal is not None else ''}"
        case ToolCall():
            return f" call {block.name} {about(block.arguments)}"
        case ToolResult():
            return f" result {short_result(block.error or text_of(block.output))}"
        case Media():
            return f" {block.kind} {block.mime}"
        case Code(code):
            return f" code {len(code):,} characters"


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
            return _block(block)


def _without(view: View, one: RequestRecord) -> Node:
    why: Node = (
        "The words of this request are not recorded, or are forgotten."
        if view.recorder.content
        else ["This gateway records no content (", e("code", "gateway.inspect.content = off"), ")."]
    )
    return [
        e("p", why, " Tokens, times, repairs and costs are here.", cls="s gap16 q"),
        section(
            words.count(len(one.repairs), "change"),
            e("ol", change_items(one.repairs, one.dialect), cls="why wide-why")
            if one.repairs
            else e("p", "Nothing had to be changed.", cls="q gap8"),
        ),
    ]


# Difference to the request before it


def diff_page(view: View, name: str) -> Page:
    one = view.request(name)
    known = view.recorder.conversations.get(one.conversation)
    siblings = list(known.requests) if known is not None else []
    place = siblings.index(one) if one in siblings else 0
    if not place or known is None:
        raise not_found("earlier request")
    before = siblings[place - 1]
    contents = view.content(before), view.content(one)
    if contents[0] is None or contents[1] is None:
        raise not_found("content")
    which = view.query.get("of", "client")
    lists = [
        (held.provider if which == "provider" else held.client) or held.client for held in contents if held
    ]
    old, new = lists[0].whole(), lists[1].whole()
    shared = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    was = _pretty_lines(old[shared:])
    now = _pretty_lines(new[shared:])
    lines = _diff(was[:_MOST_DIFF], now[:_MOST_DIFF])
    counts = sum(kind == "+" for kind, _ in lines), sum(kind == "−" for kind, _ in lines)
    tabs = [
        e(
            "a",
            title,
            href=f"{ROOT}/r/{one.id}/diff?of={form}",
            aria_current="true" if form == which else None,
        )
        for form, title in (("client", "What the client sent"), ("provider", "What the provider got"))
    ]
    classes = {"+": "ch add", "−": "ch no", " ": "ln1"}
    body = [
        crumb(
            ("Conversations", "/"),
            (view.title(known), f"/c/{known.id}"),
            (f"request {one.number}", f"/r/{one.id}"),
            (f"diff to {before.number}", ""),
        ),
        head(
            f"Request {before.number} → {one.number}",
            f"{words.count(shared, 'piece')} of {len(old)} are the same; then + {counts[0]} and − {counts[1]} lines.",
        ),
        e("nav", tabs, cls="tabs under", aria_label="Which form"),
        e(
            "div",
            e("div", f"▸ {words.count(shared, 'piece')} that both begin with", cls="foldrow"),
            [e("span", f"{kind} {text}\n", cls=classes[kind], data_mark=kind != " ") for kind, text in lines],
            cls="json diff gap8",
        ),
    ]
    return Page(
        title=f"Diff {before.number} → {one.number}",
        tab="conversations",
        body=body,
        data={"before": before.id, "after": one.id, "shared": shared, "lines": lines},
        keys=(("n N", "next change"), ("esc", "back")),
    )


def _pretty_lines(pieces: Sequence[tuple[str, object]]) -> list[str]:
    lines: list[str] = []
    for label, piece in pieces:
        if not isinstance(piece, bytes):
            continue
        value = value_in(piece)
        if value is None:
            text = piece.decode("utf-8", "replace")
        else:
            text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")
        lines += [line[:_LONGEST_LINE] for line in f"{label}: {text}".splitlines()]
    return lines


def _diff(was: list[str], now: list[str]) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for tag, a, b, c, d in SequenceMatcher(None, was, now, autojunk=True).get_opcodes():
        if tag == "equal":
            same = was[a:b]
            shown = same if len(same) <= 8 else [*same[:3], f"… {len(same) - 6} lines", *same[-3:]]
            lines += [(" ", text) for text in shown]
        else:
            lines += [("−", text) for text in was[a:b]] + [("+", text) for text in now[c:d]]
    return lines

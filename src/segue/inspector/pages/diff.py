"""A request beside the one before it: what the client added to its history, or changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.inspector.markup import words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import ROOT, Page, crumb, head
from segue.inspector.page_request import not_found
from segue.inspector.views.line_diff import DiffLine, diff_lines, pretty_lines

if TYPE_CHECKING:
    from segue.inspector.page_request import View

_KINDS: Final = {"+": "ch add", "−": "ch no", " ": "ln1"}


def page(view: View, name: str) -> Page:
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
    old, new = (
        ((held.provider if which == "provider" else None) or held.client).whole()
        for held in contents
        if held is not None
    )
    shared = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    lines = diff_lines(pretty_lines(old[shared:]), pretty_lines(new[shared:]))
    added, removed = (sum(line.sign == sign for line in lines) for sign in ("+", "−"))
    tabs = [
        e(
            "a",
            title,
            href=f"{ROOT}/r/{one.id}/diff?of={form}",
            aria_current="true" if form == which else None,
        )
        for form, title in (("client", "What the client sent"), ("provider", "What the provider got"))
    ]
    begin = (
        f"▸ {words.count(shared, 'piece')} the same: {old[0][0]} to {old[shared - 1][0]}"
        if shared
        else "Nothing at the beginning is the same."
    )
    body = [
        crumb(
            ("Conversations", "/"),
            (view.title(known), f"/c/{known.id}"),
            (f"request {one.number}", f"/r/{one.id}"),
            (f"diff to {before.number}", ""),
        ),
        head(
            f"Request {before.number} → {one.number}",
            f"{shared} of {words.count(len(old), 'piece')} are the same; then + {added} and − {removed} lines.",
        ),
        e("nav", tabs, cls="tabs under", aria_label="Which form"),
        e("div", e("div", begin, cls="foldrow"), [_line(line) for line in lines], cls="json diff gap8"),
    ]
    return Page(
        title=f"Diff {before.number} → {one.number}",
        tab="conversations",
        body=body,
        data={
            "before": before.id,
            "after": one.id,
            "shared": shared,
            "lines": [(line.sign, line.text) for line in lines],
        },
        keys=(("n N", "next change"), ("esc", "back")),
    )


def _line(line: DiffLine) -> Element:
    shown: list[Node] = [
        e("mark", part) if place % 2 and part else part for place, part in enumerate(line.parts)
    ]
    return e("span", f"{line.sign} ", shown, "\n", cls=_KINDS[line.sign], data_mark=line.sign != " ")

"""Errors, grouped by provider, status and code: the provider's own words, what was done, and whether the client saw it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.inspector.markup import marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import ROOT, Page, head, link_button

if TYPE_CHECKING:
    from segue.inspector.page_request import View
    from segue.inspector.record.records import RequestRecord

_MOST: Final = 100
_DO: Final = (
    (("401", "403"), "The key was refused. Store another: segue keys set {provider}"),
    (("402",), "The account has no money left. Pay, or use another provider."),
    (("429",), "The provider limits requests. Routes shows what is left of its limits."),
    (("404",), "The provider has no such model or path. Check the name: segue models"),
    (
        ("400", "413", "422"),
        "The provider refused the request. Open it, and look at its words; the doctor checks a saved copy.",
    ),
    (
        ("500", "502", "503", "504", "529"),
        "The provider had a failure of its own.",
    ),
)


@final
class ErrorGroup(Struct, kw_only=True, omit_defaults=True):
    """Failures that are alike."""

    route: str
    status: int | None = None
    code: str = ""
    words: str = ""
    number: int = 0
    reached: int = 0
    """How many the client saw."""
    billed: int = 0
    last: float = 0.0
    requests: list[str] = []
    conversation: str = ""
    """Of the last request, as the next ones."""
    request: int = 0
    attempts: list[int] = []
    """That failed so, counted from 1."""
    answered_by: str = ""
    """The route that answered instead; empty if none did."""
    answered_at: int = 0
    advice: str = ""


def groups_of(view: View) -> list[ErrorGroup]:
    found: dict[tuple[str, int | None, str], ErrorGroup] = {}
    for one in view.requests():
        for attempt, route, status, code, said, billed in _failures(one):
            key = route, status, code
            group = found.setdefault(key, ErrorGroup(route=route, status=status, code=code))
            group.number += 1
            group.reached += bool(one.error)
            group.billed += billed
            if one.began > group.last:
                group.last = one.began
                group.words = said if view.may_read(one.conversation, one.caller) else ""
                group.conversation, group.request = one.conversation, one.number
                if not one.error:
                    group.answered_by, group.answered_at = one.route, len(one.attempts)
            if group.requests[:1] in ([], [one.id]) and attempt:
                group.attempts = [*group.attempts, attempt]
            if len(group.requests) < 20 and one.id not in group.requests:
                group.requests = [*group.requests, one.id]
            group.advice = _advice(route, status)
    return sorted(found.values(), key=lambda group: (-bool(group.reached), -group.last))[:_MOST]


def _failures(one: RequestRecord) -> list[tuple[int, str, int | None, str, str, bool]]:
    """Number of the attempt, 0 for the gateway itself; route, status, code, words, whether it was billed."""
    failed = [
        (
            number,
            attempt.route,
            attempt.status,
            attempt.error,
            attempt.words,
            bool(attempt.usage.total_tokens),
        )
        for number, attempt in enumerate(one.attempts, 1)
        if attempt.error
    ]
    if one.error and not failed:
        failed.append((0, "gateway", one.status or None, one.error, "", False))
    return failed


def _advice(route: str, status: int | None) -> str:
    for statuses, text in _DO:
        if str(status) in statuses and route != "gateway":
            return text.replace("{provider}", route.partition("/")[0])
    return ""


def _readable(view: View, group: ErrorGroup) -> bool:
    last = view.recorder.requests.get(group.requests[0])
    return last is not None and last.content is not None and view.may_read(last.conversation, last.caller)


def page(view: View) -> Page:
    groups = groups_of(view)
    total, reached = sum(group.number for group in groups), sum(group.reached for group in groups)
    hidden = total - reached
    line = " · ".join(
        [
            words.count(total, "failed attempt"),
            f"{reached} reached the client" if reached else "none reached the client",
            *(
                [f"{hidden} {'was' if hidden == 1 else 'were'} made good by another attempt"]
                if hidden
                else []
            ),
        ]
        if groups
        else ["Nothing failed since this gateway was started."]
    )
    body = [
        head("Errors", line),
        e("div", [_group(view, group, readable=_readable(view, group)) for group in groups], cls="groups"),
        None
        if groups
        else e("p", "What a provider refuses or breaks off stands here, in its own words.", cls="q empty"),
    ]
    return Page(
        title="Errors",
        tab="errors",
        body=body,
        data={"errors": groups},
        keys=(("j k", "move"), ("enter", "open the last request")),
    )


def _group(view: View, group: ErrorGroup, *, readable: bool) -> Element:
    """`readable`: what its last request said is recorded, and may be read."""
    seen: Node = (
        [e("span", f"✕ {words.count(group.reached, 'time', 'times')} seen by the client", cls="bad")]
        if group.reached
        else e("span", "✓ never seen by the client", cls="good")
    )
    billed = f"{words.count(group.billed, 'time', 'times')} billed" if group.billed else "nothing was billed"
    return e(
        "section",
        e(
            "div",
            e("h2", marks.model(group.route, whole=True) if "/" in group.route else "the gateway itself"),
            e("span", f"{group.status or ''} {group.code}".strip(), cls="tag loss"),
            e("span", words.count(group.number, "time", "times"), cls="q s"),
            e("span", "last ", words.moment(group.last), cls="end"),
            cls="sub",
        ),
        e("p", group.words, cls="err gap8") if group.words else None,
        e("p", _what_followed(view, group), cls="gap8"),
        e("p", seen, f" · {billed}. ", group.advice, cls="s q gap8"),
        e(
            "p",
            link_button("Open", f"{ROOT}/r/{group.requests[0]}"),
            [
                " ",
                link_button("Doctor", f"{ROOT}/doctor?request={group.requests[0]}"),
                " ",
                link_button(
                    "Export a reproduction", f"{ROOT}/r/{group.requests[0]}?raw=curl&save", download=""
                ),
            ]
            if readable
            else None,
            e("span", " also ", cls="f s") if len(group.requests) > 1 else None,
            [
                [e("a", name[:8], cls="link mono", href=f"{ROOT}/r/{name}"), " "]
                for name in group.requests[1:6]
            ],
            cls="gap8",
        ),
        data_row=group.code,
        data_href=f"{ROOT}/r/{group.requests[0]}",
        tabindex="-1",
    )


def _what_followed(view: View, group: ErrorGroup) -> Node:
    """Of the last request: its conversation, which attempts failed, and who took over."""
    known = view.recorder.conversations.get(group.conversation)
    shown: list[Node] = []
    if known is not None:
        shown += [e("a", view.title(known), cls="link", href=f"{ROOT}/c/{known.id}"), " · "]
    shown.append(f"request {group.request}" if group.request else "a request of no conversation")
    if group.attempts:
        numbers = " and ".join(str(number) for number in group.attempts)
        shown.append(f" · attempt{'s' if len(group.attempts) > 1 else ''} {numbers} failed")
    if group.answered_by:
        answered = " answered" if group.answered_by == group.route else " took over"
        shown += [
            "; ",
            marks.model(group.answered_by, whole=True),
            f"{answered} at attempt {group.answered_at}",
        ]
    else:
        shown.append("; nobody took over, the client got the error")
    return shown

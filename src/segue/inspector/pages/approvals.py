"""Approvals: which calls of sessions wait for somebody's answer, with all that they would run with; and the session around one."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from segue.gateway.accounts.register import ANYONE
from segue.inspector import approvals
from segue.inspector.markup import marks, words
from segue.inspector.markup.html import Element, Node, changed, e
from segue.inspector.markup.shell import ROOT, Page, button, crumb, head, section
from segue.inspector.page_request import not_found
from segue.inspector.views.session_view import session_page
from segue.sessions.approvals import waiting_in
from segue.sessions.entries import Record
from segue.sessions.recovery import salvage_state
from segue.text.redaction import known_secrets, redact_known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.inspector.page_request import View
    from segue.sessions.approvals import WaitingCall, WaitingCalls

_MOST: Final = 200_000
"""Letters of the arguments of one call: whoever allows it has seen what it runs with."""


async def page_of(waiting: WaitingCalls, query: Mapping[str, str], *, root: str, signer: str = "") -> Page:
    """The list, or, with `session` in the query, one session in which calls wait. `root`: the address of the list."""
    with approvals.told_plainly():
        calls = await waiting.find()
        if not (name := query.get("session", "")):
            return list_page(calls, root=root, signer=signer)
        here = [call for call in calls if call.session == name]
        if not here:  # others are nobody's business here
            raise not_found("session in which a call waits")
        page = await saved_session_page(waiting, name, signer=signer)
    return structs.replace(page, tab="approvals", body=[crumb(("Approvals", root), (name, "")), page.body])


async def saved_session_page(waiting: WaitingCalls, name: str, *, signer: str = "") -> Page:
    """A session, behind its turns what the last one waits for; without the keys that this process knows."""
    items = await waiting.store.salvage(name)
    records = [item for item in items if isinstance(item, Record)]
    state, damages = salvage_state(items)
    calls = [] if damages else waiting_in(name, records)
    waits = section("Waits for an answer", _articles(calls, root="", signer=signer)) if calls else None
    page = session_page(state, records, name, waits=waits)
    told = msgspec.to_builtins(page.data) | {"calls": [call.as_dict() for call in calls]}
    secrets = known_secrets()
    return structs.replace(
        page,
        title=redact_known(page.title, secrets),
        body=changed(page.body, lambda text: str(redact_known(text, secrets))),
        data=redact_known(told, secrets),
    )


def list_page(calls: Sequence[WaitingCall], *, root: str, signer: str) -> Page:
    sessions = len({call.session for call in calls})
    wait = "waits" if len(calls) == 1 else "wait"
    line = (
        f"{words.count(len(calls), 'call')} of {words.count(sessions, 'session')} {wait} for an answer. "
        "The first answer holds; the journal of the session keeps who gave it."
        if calls
        else "No call waits for an answer."
    )
    return Page(
        title="Approvals",
        tab="approvals",
        body=[
            head("Approvals", line),
            _articles(calls, root=root, signer=signer)
            if calls
            else e(
                "p", "Calls whose approval is asked for later stand here, from all sessions.", cls="q empty"
            ),
        ],
        data={"calls": [call.as_dict() for call in calls]},
        foot=e(
            "span",
            "What waited when this page was made. ",
            e("a", "Look again", cls="link", href=ROOT + root),
        ),
        keys=(("j k", "move"),),
    )


def _articles(calls: Sequence[WaitingCall], *, root: str, signer: str) -> list[Node]:
    return [
        e("div", [_article(call, root=root, signer=signer) for call in calls], cls="groups"),
        e("noscript", e("p", "Answering needs JavaScript; the list does not.", cls="q")),
    ]


def _article(call: WaitingCall, *, root: str, signer: str) -> Element:
    """`root`: of the list, from which links lead to sessions; empty on the page of one."""
    held = call.as_dict()
    given: dict[str, Any] = {
        "session": call.session,
        "call": call.id,
        "tool": held["name"],
        "by": signer or approvals.usual_name(),
        "signed": bool(signer),
    }
    title = held["title"] or call.session
    link = e("a", title, cls="link", href=f"{ROOT}{root}?session={call.session}") if root else title
    return e(
        "section",
        e(
            "div",
            e("h2", held["name"], cls="mono"),
            marks.model(call.model, whole=True) if call.model else None,
            e("span", "waits ", words.moment(call.since, time()), cls="end"),
            cls="sub",
        ),
        e(
            "p",
            link,
            f" · session {call.session}",
            f" · agent {call.agent}" if call.agent else None,
            cls="s q gap8",
        ),
        e("pre", _arguments(held["arguments"]), cls="json gap8"),
        e(
            "p",
            button("Approve", "approve", main=True, **given),
            button("Deny", "deny", **given),
            cls="row gap8",
        ),
        data_row=call.id,
        tabindex="-1",
    )


def _arguments(arguments: Any) -> str:
    """As JSON, in which nothing that is written can hide."""
    text = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode("utf-8", "replace")
    if len(text) <= _MOST:
        return text
    return f"{text[:_MOST]}\n… and {len(text) - _MOST:,} more letters, which this page does not show."


async def _prepare(view: View) -> tuple[Page]:
    signer = "" if view.viewer.account is ANYONE else view.viewer.name
    waiting = approvals.required(view)
    return (await page_of(waiting, view.query, root="/approvals", signer=signer),)


def page(view: View, made: Page) -> Page:
    del view
    return made


page.prepare = _prepare  # type: ignore[attr-defined]  # what has to be waited for, before the page is made in a thread

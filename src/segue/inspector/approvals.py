"""Answers of people who look at a page, for calls of sessions that wait for one. The journal of the session says who gave them."""

from __future__ import annotations

import getpass
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.errors import InvalidRequestError, JournalError, UsageError
from segue.gateway.accounts.administration import require_operator
from segue.inspector.access.bodies import decoded
from segue.inspector.markup import words
from segue.inspector.markup.html import visible
from segue.inspector.page_request import not_found
from segue.sessions.approvals import CallAnswer, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.inspector.page_request import View
    from segue.sessions.approvals import WaitingCalls


class PageAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """As the page sends it."""

    session: str
    call_id: str
    allow: bool
    by: str = ""
    why: str = ""


def required(view: View) -> WaitingCalls:
    """The calls that an operator may answer for here. Raises for everybody else, and where the settings have none."""
    if view.approvals is None:
        raise not_found("page")
    require_operator(view.viewer.account)
    return view.approvals


def usual_name() -> str:
    """Who signs, if nobody has logged in with a name: the user of this machine, until somebody writes another one."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


@contextmanager
def told_plainly() -> Iterator[None]:
    """What a store says of itself, such as its path, is not for a page."""
    try:
        yield
    except JournalError as error:
        busy = error.code == "session_busy"
        what = "Another process has the session open." if busy else "The sessions cannot be reached now."
        raise InvalidRequestError(what, code="unavailable", status=503, hint="Try again.") from error


async def answer(waiting: WaitingCalls, body: bytes, *, signer: str) -> tuple[PageAnswer, dict[str, Any]]:
    """What was given, and what the page says of it. `signer`: who has logged in; empty where people write their name."""
    given = decoded(body, PageAnswer)
    if signer and given.by not in ("", signer):
        raise InvalidRequestError("You sign with the name of your key.", code="bad_answer", status=400)
    said = CallAnswer(call_id=given.call_id, allow=given.allow, by=signer or given.by, why=given.why)
    try:
        with told_plainly():
            await waiting.answer(given.session, said)
            left = len(await waiting.of(given.session))
    except UsageError as error:
        raise InvalidRequestError(
            visible(error.message), code=error.code, status=status_of(error), hint=error.hint
        ) from error
    did = "Approved" if given.allow else "Denied"
    more = (
        f"{words.count(left, 'other call')} of the session still {'waits' if left == 1 else 'wait'}."
        if left
        else "The turn continues where it is waited for, or when it is resumed."
    )
    return given, {"said": f"{did}. {more}", "reload": True}

"""A recorded conversation as a file to take away. Keys are cut out once more, and the file's name says how many."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from segue.dialects.registry import NAMES
from segue.errors import SegueError
from segue.inspector.markup.shell import Page
from segue.inspector.page_request import not_found
from segue.interop.convert import write_request
from segue.interop.source import CONVERSATION, SourceRequest
from segue.sessions.entries import Adopted, SessionStarted
from segue.sessions.pages.html_page import as_html
from segue.sessions.state import State
from segue.text.redaction import REDACTED, known_secrets, redact_known, redact_text

if TYPE_CHECKING:
    from segue.conversation.message import Conversation
    from segue.inspector.record.records import ConversationRecord

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def exported(said: Conversation | None, known: ConversationRecord, form: str) -> Page:
    """`form`: `html`, our own `conversation`, or a wire."""
    if said is None or form not in ("html", CONVERSATION, *NAMES):
        raise not_found("export")
    if form == "html":
        state = State()
        state.apply(1, SessionStarted(model=known.route, system=said.system, title=known.title))
        state.apply(2, Adopted(conversation=said))
        text = as_html(state)
    else:
        source = SourceRequest(dialect="", messages=said.messages, system=said.system, conversation=said)
        try:
            text = write_request(source, to=form).body.decode("utf-8", "replace")
        except SegueError as error:
            raise not_found(f"export ({error.message})") from error
    clean = str(redact_known(redact_text(text), known_secrets()))
    cut = clean.count(REDACTED) - text.count(REDACTED)
    name = _UNSAFE.sub("-", known.id)[:60] + (f"-{cut}-keys-cut" if cut > 0 else "")
    ending = "html" if form == "html" else "json"
    return Page(
        title="Export", tab="conversations", body=None, data=clean.encode(), download=f"{name}.{ending}"
    )

"""A session exported: as our document, any provider's request, a page for people, or the journal itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from segue.conversation.document import encode_document
from segue.errors import UsageError
from segue.interop.convert import write_request
from segue.interop.source import CONVERSATION, SourceRequest, target_name
from segue.providers.models.cards import dialect_of_model
from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Record
from segue.sessions.entry_codec import encode_entry
from segue.sessions.pages.html_page import as_html
from segue.sessions.pages.markdown import as_markdown
from segue.sessions.recovery import salvage_state
from segue.text.terminal_text import safe_json_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.tools import ToolSpec
    from segue.interop.convert import Converted
    from segue.sessions.state import State
    from segue.sessions.stores.store import Store

_LOG = logging.getLogger("segue.sessions")

FORMS = (CONVERSATION, "markdown", "html", "journal")
"""Beside these, every dialect."""


async def export_session(
    store: Store, session: str, form: str = CONVERSATION, *, model: str = "", max_output: int | None = None
) -> bytes:
    """A session in one of `FORMS`, or as a dialect's request. It may be open elsewhere.

    `max_output`: characters of each tool's output in Markdown. Of a damaged session everything that can be read is exported; the log has what is missing.
    """
    items = await store.salvage(session)
    records = [item for item in items if isinstance(item, Record)]
    state, damages = salvage_state(items)
    for damage in damages:
        _LOG.warning("%s", errors.damaged_entry(session, damage).message)
    if form == "markdown":
        return as_markdown(state, records, max_output=max_output).encode()
    if form == "html":
        return as_html(state, records).encode()
    if form == "journal":
        data = as_journal(items)
    elif form == CONVERSATION:
        data = as_document(state)
    else:
        data = as_request(state, form, model=model).body
    return safe_json_bytes(data)  # people print exports on their terminals


def as_document(state: State, tools: tuple[ToolSpec, ...] = ()) -> bytes:
    """All messages, also those that were compacted."""
    return encode_document(state.history, state.ledger, tools=tools, options=state.options)


def as_request(state: State, to: str, *, model: str = "") -> Converted:
    """The session as its next request in the dialect `to`, compacted as it is; `model` as the provider calls it."""
    to = target_name(to)
    if to == CONVERSATION:
        raise UsageError(
            "A conversation is not a request.", code="bad_form", hint="Export it as a document instead."
        )
    last_used = state.model.partition("/")[2]
    source = SourceRequest(
        dialect=dialect_of_model(last_used) if last_used else "",
        messages=state.conversation.messages,
        system=state.conversation.system,
        options=structs.replace(state.options, model=last_used),
        conversation=state.conversation,
        ledger=state.ledger,
    )
    return write_request(source, to=to, model=model)


def as_journal(items: Iterable[Record | DamagedEntry]) -> bytes:
    """Every entry as a line, as session files have them. Importing it gives the conversation back."""
    return b"".join(_line(item) + b"\n" for item in items)


def _line(item: Record | DamagedEntry) -> bytes:
    if isinstance(item, DamagedEntry):
        fields = {"seq": item.seq, "damaged": item.why, "place": item.place, "raw": item.raw}
        return msgspec.json.encode(fields)
    return b'{"seq":%d,"at":%b,"entry":%b}' % (item.seq, f"{item.at:.6f}".encode(), encode_entry(item.entry))

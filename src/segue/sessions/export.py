"""A session exported: as our document, any provider's request, a page for people, or the journal itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.document import encode_document
from segue.errors import UsageError
from segue.interop.convert import write_request
from segue.interop.source import CONVERSATION, SourceRequest, target_name
from segue.providers.models.cards import dialect_of_model
from segue.sessions.entry_codec import encode_entry
from segue.sessions.markdown import as_markdown
from segue.sessions.state import replay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.tools import ToolSpec
    from segue.interop.convert import Converted
    from segue.sessions.entries import Record
    from segue.sessions.state import State
    from segue.sessions.stores.store import Store

FORMS = (CONVERSATION, "markdown", "journal")
"""Beside these, every dialect."""


async def export_session(store: Store, session: str, form: str = CONVERSATION, *, model: str = "") -> bytes:
    """A session in one of `FORMS`, or as a dialect's request. It may be open elsewhere."""
    records = await store.read(session)
    if form == "journal":
        return as_journal(records)
    state = replay(records)
    if form == "markdown":
        return as_markdown(state).encode()
    if form == CONVERSATION:
        return as_document(state)
    return as_request(state, form, model=model).body


def as_document(state: State, tools: tuple[ToolSpec, ...] = ()) -> bytes:
    return encode_document(state.conversation, state.ledger, tools=tools, options=state.options)


def as_request(state: State, to: str, *, model: str = "", tools: tuple[ToolSpec, ...] = ()) -> Converted:
    """The whole session as a request in the dialect `to`; `model` as the provider calls it."""
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
        tools=tools,
        options=structs.replace(state.options, model=last_used),
        conversation=state.conversation,
        ledger=state.ledger,
    )
    return write_request(source, to=to, model=model)


def as_journal(records: Iterable[Record]) -> bytes:
    """Every entry as a line, as session files have them. Importing it gives the conversation back."""
    return b"".join(
        b'{"seq":%d,"at":%b,"entry":%b}\n'
        % (record.seq, f"{record.at:.6f}".encode(), encode_entry(record.entry))
        for record in records
    )

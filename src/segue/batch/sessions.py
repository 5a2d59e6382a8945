"""Results of a batch as sessions: each can be resumed with any model."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import structs

from segue.batch.outcome import entries_of, message_of
from segue.batch.stored_requests import document_of
from segue.errors import JournalError
from segue.sessions.entries import Adopted, ModelReplied, SessionStarted, TurnEnded, UserSaid
from segue.sessions.journal import Journal
from segue.transcript.adopt import rebuild

if TYPE_CHECKING:
    from segue.batch.batch import Batch
    from segue.batch.state_file import StoredRequest
    from segue.conversation.message import Message
    from segue.sessions.entries import Entry
    from segue.sessions.stores.store import Store


async def save_sessions(batch: Batch, store: Store, *, directory: str = "") -> int:
    """Save every answer that is not saved yet as its own session. Returns how many were saved now. Killed and called again, it
    saves none twice: the id of a session follows from the batch and the request."""
    saved = 0
    for stored in batch.stored():
        reply = message_of(stored) if stored.state == "succeeded" else None
        if reply is None or stored.session:
            continue
        session = sha256(f"{batch.id} {stored.place}".encode()).hexdigest()[:12]
        system, entries = _entries(stored, reply, batch.route.name)
        started = SessionStarted(
            model=batch.route.name,
            system=system,
            title=f"{batch.facts.source or 'batch'} {stored.name}",
            directory=directory,
        )
        try:
            journal = await Journal.start(store, started, session, more=entries)
            await journal.close()
        except JournalError as error:
            if error.code != "session_exists":
                raise
        batch.note_session(stored, session)
        saved += 1
    return saved


def _entries(stored: StoredRequest, reply: Message, model: str) -> tuple[str, list[Entry]]:
    """The system prompt, and what happened: a history from elsewhere, then a turn if the user spoke last."""
    conversation, ledger = document_of(stored)
    *before, last = conversation.messages
    plain_turn = last.speaker == "user" and not reply.calls
    told = before if plain_turn else [*conversation.messages, reply]
    entries: list[Entry] = []
    if told:
        history = structs.replace(conversation, messages=tuple(told))
        known = ledger or rebuild(history)
        ended = tuple(one for one in known.values() if one.finished)
        entries.append(Adopted(conversation=history, interactions=ended, source="a batch"))
    if plain_turn:
        finish, usage, cost = entries_of(stored)
        entries += [
            UserSaid(last, model=model),
            ModelReplied(reply, finish=finish, usage=usage, cost=cost),
            TurnEnded(),
        ]
    return conversation.system, entries

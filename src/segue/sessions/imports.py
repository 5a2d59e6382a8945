"""Histories from elsewhere as new sessions: requests of any dialect, documents, and other programs' session files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, final

from msgspec import Struct, structs

from segue.conversation.options import Options
from segue.errors import JournalError, UsageError
from segue.interop.session_files import read_file, with_unknown_prefix
from segue.interop.source import AUTO
from segue.sessions.entries import Adopted, DamagedEntry, Record, SessionStarted
from segue.sessions.entry_codec import decode_entry
from segue.sessions.journal import Journal
from segue.sessions.recovery import closing_entries, salvage_state
from segue.transcript.adopt import rebuild
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from segue.sessions.stores.store import Store


@final
class History(Struct, frozen=True, kw_only=True):
    """The conversation in a file, in our form."""

    adopted: Adopted
    message_count: int
    """How many messages the file holds."""
    title: str = ""
    model: str = ""
    """`provider/model` if the file has it so."""
    options: Options = Options()
    repairs: tuple[Repair, ...] = ()
    """What was repaired on the way."""


async def import_session(
    store: Store,
    data: bytes,
    *,
    dialect: str = AUTO,
    model: str = "",
    title: str = "",
    directory: str = "",
    source: str = "",
) -> tuple[Journal, History]:
    """A new session that begins with what a file holds. `source`: where it is from; `model`: who answers next."""
    history = read_history(data, dialect)
    started = SessionStarted(
        model=model or history.model,
        system=history.adopted.conversation.system,
        title=title or history.title,
        directory=directory,
        options=history.options,
    )
    adopted = structs.replace(history.adopted, source=source or history.adopted.source)
    return await Journal.start(store, started, more=(adopted,)), history


def read_history(data: bytes, dialect: str = AUTO) -> History:
    """Raises TranscriptError or UsageError for what nobody recognises, and for what holds no message."""
    history = (_read_journal(data) if dialect == AUTO else None) or _read_source(data, dialect)
    if not history.adopted.conversation.messages:
        raise UsageError(
            "The file holds no message.", code="nothing_to_import", hint="Check that it is the right file."
        )
    return history


def _read_source(data: bytes, dialect: str) -> History:
    source, _ = read_file(data, dialect)
    # Rows of a database have columns of their own, which the very wire of the messages would refuse.
    source = source.for_wire(source.dialect)
    conversation, repairs = source.adopted()
    if source.conversation is None:
        # A session has another system prompt or other tools than the request.
        conversation = structs.replace(conversation, messages=with_unknown_prefix(conversation.messages))
    ledger = source.ledger or rebuild(conversation)
    # A call without an end has none in the ledger either: the renderer gives it one, whatever it is sent to.
    known = tuple(interaction for interaction in ledger.values() if interaction.finished)
    # A foreign request's settings were for that request; those of our own document are the session's.
    own = source.conversation is not None
    return History(
        adopted=Adopted(
            conversation=conversation, interactions=known, source=source.form or source.dialect or "a file"
        ),
        message_count=source.message_count,
        options=structs.replace(source.options, model="", stream=None) if own else Options(),
        repairs=repairs,
    )


def _read_journal(data: bytes) -> History | None:
    """Our own journal as lines; None if it is something else."""
    lines = [line for line in data.splitlines() if line.strip()]
    if not lines or (b'"entry"' not in lines[0] and b'"damaged"' not in lines[0]):
        return None
    items: list[Record | DamagedEntry] = []
    for number, line in enumerate(lines, 1):
        try:
            fields: dict[str, Any] = json.loads(line)
            seq, at = _position(fields)
            if "damaged" in fields:
                items.append(DamagedEntry(seq, f"line {number}", str(fields["damaged"])))
                continue
            items.append(Record(seq, at, decode_entry(json.dumps(fields["entry"]))))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == 1:
                return None
            if number == len(lines):
                break  # cut off
            raise JournalError(
                "A line is not an entry of a session.",
                code="damaged",
                path=f"line {number}",
                hint="Check that the file is whole.",
            ) from error
    state, _ = salvage_state(items)
    for seq, entry in enumerate(closing_entries(state), state.last_seq + 1):
        state.apply(seq, entry)
    return History(
        adopted=Adopted(
            conversation=state.conversation,
            interactions=tuple(state.ledger.values()),
            source="a session of segue",
        ),
        message_count=len(state.conversation.messages),
        title=state.title,
        model=state.model,
        options=state.options,
    )


def _position(fields: Any) -> tuple[int, float]:
    seq, at = fields["seq"], fields.get("at", 0.0)
    if type(seq) is not int or not isinstance(at, int | float):
        raise TypeError(seq, at)
    return seq, float(at)

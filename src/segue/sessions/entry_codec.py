"""Entries as JSON, one object each, and back.

What a program can build and JSON cannot hold (cycles, bytes, NaN) is written in a form it can, as in documents.
Headers and keys in a request's own fields belong to the provider, not to the session: they are never written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, final, get_args

import msgspec
from msgspec import Struct, structs

from segue.conversation.document import (
    plain_call,
    plain_interaction,
    plain_message,
    plain_options,
    plain_result,
)
from segue.conversation.json_safe import json_safe
from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import JournalError
from segue.sessions import errors
from segue.sessions.entries import (
    Adopted,
    CallEnded,
    CallsScheduled,
    Compacted,
    DamagedEntry,
    Entry,
    ModelReplied,
    NoteAdded,
    Record,
    SessionStarted,
    SettingsChanged,
    TurnEnded,
    UserSaid,
)
from segue.text.redaction import drop_secret_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.message import Conversation

E_co = TypeVar("E_co", bound=Entry, covariant=True)

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


@final
class EncodedEntry(Struct, Generic[E_co], frozen=True):
    """An entry as it will be read back, and its JSON: encoded once, for the state of a journal and for its store."""

    entry: E_co
    body: bytes

    @classmethod
    def of(cls, entry: E_co) -> EncodedEntry[E_co]:  # type: ignore[misc]  # a constructor may take what it is generic in
        """Raises JournalError `damaged` for an entry that could not be read back."""
        body = encode_entry(entry)
        return cls(cast("E_co", decode_entry(body)), body)


def encode_entry(entry: Entry) -> bytes:
    """An entry as one line of JSON."""
    plain = _encodable(entry)
    try:
        return _ENCODER.encode(plain)
    except UnicodeEncodeError:
        # Lone surrogates: the standard library writes them as escapes.
        return json.dumps(msgspec.to_builtins(plain), separators=(",", ":")).encode()


def decode_entry(body: bytes | str) -> Entry:
    """Raises JournalError `newer_entry` or `damaged`."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _decode_slowly(body)


def decode_entries(bodies: Sequence[bytes]) -> list[Entry]:
    """All of them; raises JournalError if one cannot be read."""
    try:
        return list(map(_DECODER.decode, bodies))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [decode_entry(body) for body in bodies]


def decode_stored(body: bytes, seq: int, at: float, place: str) -> Record | DamagedEntry:
    """What a store holds of an entry at a place. Raises JournalError `newer_entry`."""
    try:
        return Record(seq, at, decode_entry(body))
    except JournalError as error:
        if error.code == "newer_entry":
            raise
        return DamagedEntry(seq, place, "it cannot be read", body)


def _decode_slowly(body: bytes | str) -> Entry:
    try:
        fields = json.loads(body)
        entry: Entry = msgspec.convert(fields, Entry)
    except msgspec.ValidationError as error:
        kind = fields.get("type") if isinstance(fields, dict) else None
        if isinstance(kind, str) and kind not in _KINDS:
            raise errors.newer_entry(kind) from error
        raise errors.damaged(str(kind or "entry"), str(error)) from error
    except (ValueError, RecursionError) as error:
        raise errors.damaged("entry", str(error)) from error
    return entry


_KINDS: Final = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Entry))


def _encodable(entry: Entry) -> Entry:
    """The entry without values that JSON cannot hold, and without secrets."""
    changed: dict[str, Any] = {}
    match entry:
        case UserSaid(message) | NoteAdded(message) | ModelReplied(message):
            changed["message"] = plain_message(message)
        case CallsScheduled(calls):
            changed["calls"] = tuple(plain_call(call) for call in calls)
        case CallEnded(result):
            changed["result"] = plain_result(result)
        case Adopted(conversation=conversation, interactions=interactions):
            changed["conversation"] = _plain_conversation(conversation)
            changed["interactions"] = tuple(plain_interaction(interaction) for interaction in interactions)
        case Compacted(conversation=conversation):
            changed["conversation"] = _plain_conversation(conversation)
        case SessionStarted(options=options) | SettingsChanged(options=Options() as options) if (
            options != NO_OPTIONS
        ):
            changed["options"] = _journalled(options)
        case TurnEnded(error=dict() as error):
            changed["error"] = json_safe(error)
        case _:
            return entry
    return structs.replace(entry, **changed)


def _plain_conversation(conversation: Conversation) -> Conversation:
    messages = tuple(plain_message(message) for message in conversation.messages)
    return structs.replace(conversation, messages=messages)


def _journalled(options: Options) -> Options:
    kept = plain_options(options)
    if kept.extra:
        kept = structs.replace(kept, extra=drop_secret_fields(kept.extra))
    if kept.own is not None:
        own = kept.own
        bare = structs.replace(own, fields=drop_secret_fields(own.fields), form=drop_secret_fields(own.form))
        kept = structs.replace(kept, own=bare)
    return kept

"""A history that a chat begins with, in whatever form its owner has it: the messages of any wire, a document, a session file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.conversation.message import Conversation, Message
from segue.errors import UsageError
from segue.sessions.entries import Adopted
from segue.transcript.repairs import Repair

GivenHistory: TypeAlias = Iterable[Any] | Mapping[str, Any] | Conversation | bytes | Path
"""Messages as they were sent or received, a whole request, our own document, the bytes of a file, or its path."""


@final
class AdoptedHistory(Struct, frozen=True):
    """A history in our form."""

    adopted: Adopted
    title: str = ""
    repairs: tuple[Repair, ...] = ()
    """What was repaired on the way."""


def history_in(given: GivenHistory | None) -> AdoptedHistory | None:
    """None where none is given, or an empty one. Raises TranscriptError or UsageError for what nobody recognises."""
    if given is not None and not isinstance(given, str | bytes | Path | Mapping | Conversation):
        listed = list(given)
        own = listed and all(isinstance(message, Message) for message in listed)
        given = Conversation(tuple(listed)) if own else listed or None
    if given is None:
        return None
    if isinstance(given, Conversation):
        from segue.transcript.adopt import rebuild  # noqa: PLC0415 - most chats begin with nothing

        known = tuple(one for one in rebuild(given).values() if one.finished)
        return AdoptedHistory(Adopted(conversation=given, interactions=known, source="a conversation"))
    if isinstance(given, str):
        raise UsageError(
            "A text is no history.",
            code="bad_history",
            path="history",
            hint="Give a list of messages, the bytes of a file, or a Path.",
        )
    from segue.sessions.imports import read_history  # noqa: PLC0415 - the same

    data = _read(given) if isinstance(given, Path) else given
    found = read_history(data if isinstance(data, bytes) else _encoded(data))
    return AdoptedHistory(found.adopted, found.title, found.repairs)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            code="bad_history",
            path="history",
            hint="Check the path.",
        ) from error


def _encoded(given: object) -> bytes:
    try:
        return msgspec.json.encode(given, enc_hook=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"The history cannot be written as JSON: {str(error).splitlines()[0]}",
            code="bad_history",
            path="history",
            hint="Give messages as they were sent: dictionaries, or the objects of a provider's SDK.",
        ) from error


def _plain(value: Any) -> Any:
    """Messages and blocks as the SDKs of providers return them."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return dump(mode="json", by_alias=True, exclude_none=True)

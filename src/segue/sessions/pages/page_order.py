"""A session as a page in order: its messages, and between them what happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, final

from msgspec import Struct

from segue.conversation.message import Message
from segue.sessions.entries import Compacted, ModelReplied, Rewound, Switched, TurnEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.sessions.entries import Entry, Record
    from segue.sessions.state import State


@final
class Aside(Struct, frozen=True):
    """Something that happened beside the messages."""

    text: str
    failed: bool = False


PageItem: TypeAlias = Message | Aside


def page_of(state: State, records: Sequence[Record] = ()) -> list[PageItem]:
    """All messages, also compacted ones; with `records`, also switches, repairs, errors and compactions."""
    items: list[PageItem] = []
    entries = [record.entry for record in records]
    at = 0
    for message in state.history.messages:
        found = _place_of(message, entries, at) if message.speaker == "model" else None
        if found is not None:
            items += _asides(entries[at:found])
            reply = entries[found]
            if isinstance(reply, ModelReplied) and reply.repairs:
                items.append(Aside(_repairs(reply.repairs)))
            at = found + 1
        items.append(message)
    return [*items, *_asides(entries[at:])]


def _place_of(message: Message, entries: list[Entry], start: int) -> int | None:
    for index, entry in enumerate(entries[start:], start):
        if isinstance(entry, ModelReplied) and entry.message == message:
            return index
    return None


def _asides(entries: list[Entry]) -> list[PageItem]:
    found: list[PageItem] = []
    for entry in entries:
        match entry:
            case Rewound():  # what came before was undone
                found = []
            case Switched(previous=previous, model=model, reason=reason):
                found.append(Aside(f"{previous} → {model} ({reason})"))
            case Compacted(strategy=strategy):
                found.append(Aside(f"The conversation was shortened ({strategy})."))
            case TurnEnded(finish=finish, error=error) if finish != "complete":
                why = f": {error.get('message', '')}" if error else ""
                found.append(Aside(f"The turn ended: {finish.replace('_', ' ')}{why}", failed=True))
            case _:
                pass
    return found


def _repairs(count: int) -> str:
    changes = "1 repair" if count == 1 else f"{count} repairs"
    return f"The request for this reply took {changes}."

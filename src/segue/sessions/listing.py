"""What a list of sessions shows, kept up to date entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct, structs

from segue.conversation.json_safe import encodable
from segue.sessions.entries import (
    Adopted,
    Entry,
    Link,
    ModelReplied,
    NoteAdded,
    SessionStarted,
    SettingsChanged,
    Switched,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from segue.sessions.leases import active_owner, stored_claim
from segue.sessions.stores.store import SessionInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FIRST_WORDS: Final = 200
_SHOWN: Final = (
    *("id", "title", "model", "directory", "created", "updated", "entries"),
    *("turns", "replies", "failures", "first_words"),
)


@final
class ListingChange(Struct, frozen=True, kw_only=True):
    """What some entries change in the list. None or an empty text: no change."""

    title: str | None = None
    model: str = ""
    turns: int = 0
    first_words: str = ""
    replies: int = 0
    failures: int = 0
    """Turns that ended with an error."""
    texts: tuple[str, ...] = ()
    """What user and model wrote, folded for the search."""


def listing_change(entries: Iterable[Entry]) -> ListingChange:
    """What these entries change in the list of sessions."""
    title: str | None = None
    model = first_words = ""
    turns = replies = failures = 0
    texts: list[str] = []
    for entry in entries:
        match entry:
            case SessionStarted():
                title, model = entry.title, entry.model
            case SettingsChanged():
                title = title if entry.title is None else entry.title
            case Switched() | TurnResumed():
                model = entry.model or model
            case UserSaid(message):
                model = entry.model or model
                turns += 1
                text = message.text
                first_words = first_words or _first_words(text)
                texts.append(fold_text(text))
            case ModelReplied(message) | NoteAdded(message):
                replies += isinstance(entry, ModelReplied)
                texts.append(fold_text(message.text))
            case TurnEnded("error"):
                failures += 1
            case Adopted():
                spoken = [message for message in entry.conversation.messages if message.speaker != "tool"]
                asked = [
                    message for message in spoken if message.speaker == "user" and not message.instruction
                ]
                turns += len(asked)
                replies += sum(message.speaker == "model" for message in spoken)
                first_words = first_words or next(
                    (words for one in asked if (words := _first_words(one.text))), ""
                )
                texts.append(fold_text("\n".join(message.text for message in spoken)))
            case _:
                pass
    return ListingChange(
        title=None if title is None else encodable(title),
        model=model,
        turns=turns,
        first_words=first_words,
        replies=replies,
        failures=failures,
        texts=tuple(text for text in texts if text),
    )


def last_use(entries: Iterable[Entry], times: Iterable[float]) -> float:
    """When a session was used last, by the times of its entries. The first one always counts."""
    return max(at for entry, at in zip(entries, times, strict=True) if is_use(listing_change((entry,))))


def is_use(change: ListingChange) -> bool:
    """Whether the session was used: the list has what was used last at its top."""
    return bool(change.turns or change.model or change.title is not None)


def update_info(info: SessionInfo, change: ListingChange, *, entries: int, updated: float) -> SessionInfo:
    """The line of the list after some more entries."""
    return structs.replace(
        info,
        title=info.title if change.title is None else change.title,
        model=change.model or info.model,
        turns=info.turns + change.turns,
        replies=info.replies + change.replies,
        failures=info.failures + change.failures,
        first_words=info.first_words or change.first_words,
        entries=entries,
        updated=updated,
    )


def info_in_row(row: Sequence[Any]) -> SessionInfo:
    """The line of the list in a row of a database: its time, the columns of a claim, what is shown, and the parent."""
    now, claim, shown, (parent, call, seq) = row[0], row[1:7], row[7:-3], row[-3:]
    return SessionInfo(
        **dict(zip(_SHOWN, shown, strict=True)),
        parent=Link(parent, call, seq) if parent else None,
        holder=active_owner(stored_claim(*claim), now),
    )


def is_shown(info: SessionInfo, parent: str, *, used: bool) -> bool:
    """Whether a list shows a session: subagents' only with their parent's name; with `used` none that is empty or whose
    only attempts failed."""
    if used and (not info.turns or (info.failures and not info.replies)):
        return False
    link = info.parent
    if parent:
        return link is not None and link.session == parent
    return link is None or not link.call


def mentions(info: SessionInfo, said: Iterable[str], text: str) -> bool:
    """Whether title, first words or messages of a session hold a text; it and `said` are folded."""
    return any(text in words for words in (fold_text(info.title), fold_text(info.first_words), *said))


def fold_text(text: str) -> str:
    """A text in the form in which it is searched: without regard to case."""
    return encodable(text).casefold()


def _first_words(text: str) -> str:
    return " ".join(encodable(text[: 4 * FIRST_WORDS]).split())[:FIRST_WORDS]

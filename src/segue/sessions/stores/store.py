"""What keeps journals, as a small protocol: SQLite, files that people can read, memory; others can follow.

One writer per session: who claims a session gets a lease with an epoch, and an append with an older epoch is refused
inside the very transaction that would have written it.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, final

from msgspec import Struct

from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Entry, Link, Record, SessionStarted
from segue.sessions.leases import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segue.sessions.entry_codec import EncodedEntry
    from segue.sessions.leases import Lease

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@final
class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as a list shows it."""

    id: str
    title: str = ""
    model: str = ""
    directory: str = ""
    created: float = 0.0
    updated: float = 0.0
    entries: int = 0
    turns: int = 0
    replies: int = 0
    failures: int = 0
    """Turns that ended with an error."""
    first_words: str = ""
    """How the user's first message begins."""
    parent: Link | None = None
    holder: Owner | None = None
    """Who has it open now."""


class Store(Protocol):
    """Keeps journals. All methods may be called from several tasks; a session is written by its owner alone."""

    async def create(
        self,
        session: str,
        started: EncodedEntry[SessionStarted],
        owner: Owner,
        *,
        more: Sequence[EncodedEntry[Entry]] = (),
        times: Sequence[float] = (),
    ) -> Lease:
        """A new session, claimed for its creator; its first entries are `started` and `more`, all of them or no session.
        Refuses an id that is taken. `times`: when they were written first, one for each, of a session from elsewhere."""
        ...

    async def claim(self, session: str, owner: Owner, *, take_over: bool = False) -> Lease:
        """Become the writer of a session. Raises JournalError `session_busy`, naming the holder, while another has
        it open and lives; `take_over` fences that one off."""
        ...

    async def renew(self, lease: Lease) -> None:
        """Report that the owner is still there. Never brings a lost lease back: raises JournalError `fenced`."""
        ...

    async def release(self, lease: Lease) -> None:
        """The owner is done. Harmless when the lease was lost."""
        ...

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        """Write the bodies of entries, all or none, durably; the sequence number of the last. Raises JournalError `fenced`.

        A caller that is cancelled meanwhile cannot know whether they were written; `read` shows it.
        """
        ...

    async def read(self, session: str, *, after: int = 0) -> list[Record]:
        """The entries in order. Raises JournalError `unknown_session`, or `damaged` with the place of the first entry
        that cannot be read."""
        ...

    async def salvage(self, session: str) -> list[Record | DamagedEntry]:
        """The entries in order, as far as they can be read; and a note in place of the others."""
        ...

    async def find(
        self, *, text: str = "", parent: str = "", used: bool = False, limit: int = 50
    ) -> list[SessionInfo]:
        """Sessions, last used first; with `text` only those whose title, first words or messages hold it.

        Sessions of subagents are shown only with their `parent`, as are its forks. With `used` only those in which
        something happened: neither empty, nor with no reply but errors.
        """
        ...

    async def delete(self, session: str) -> None:
        """Remove a session and those of its subagents. Raises JournalError `session_busy` while it is open."""
        ...

    async def close(self) -> None: ...


def check_session_id(session: str) -> None:
    """Raises UsageError `bad_session_id`: ids become names of files, and words on command lines."""
    if not _SESSION_ID.fullmatch(session):
        raise errors.bad_session_id(session)


def intact(session: str, items: Iterable[Record | DamagedEntry]) -> list[Record]:
    """Raises JournalError `damaged` at the first entry that cannot be read."""
    found = list(items)
    for item in found:
        if type(item) is DamagedEntry:
            raise errors.damaged_entry(session, item)
    return cast("list[Record]", found)


async def outlast(task: asyncio.Future[Any]) -> None:
    """Wait until a task is over, however often we are cancelled; its result does not matter here."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()

"""Sessions that end with their process: for tests, and for chats that nobody wants to keep."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import structs

from segue.sessions import errors
from segue.sessions.entries import Entry, Record, SessionStarted
from segue.sessions.entry_codec import EncodedEntry, decode_entry
from segue.sessions.leases.claims import Hold, check_session_id, refuse_busy
from segue.sessions.listing import fold_text, is_shown, news_in, told
from segue.sessions.stores.store import LEASE_SECONDS, Lease, SessionInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.sessions.leases.owners import Owner


class _Kept:
    """One session."""

    def __init__(self, info: SessionInfo) -> None:
        self.info = info
        self.bodies: list[tuple[float, bytes]] = []
        self.said: list[str] = []
        self.epoch = 0
        self.hold: Hold | None = None

    def holds(self, lease: Lease) -> bool:
        return (
            self.hold is not None and self.epoch == lease.epoch and self.hold.owner.token == lease.owner.token
        )

    def write(self, entries: Sequence[EncodedEntry[Entry]], now: float) -> int:
        bodies = [(now, bytes(encoded.body)) for encoded in entries]
        news = news_in(encoded.entry for encoded in entries)
        self.bodies += bodies
        self.said += news.said
        self.info = told(self.info, news, entries=len(self.bodies), updated=now)
        return len(self.bodies)

    def mentions(self, text: str) -> bool:
        shown = (fold_text(self.info.title), fold_text(self.info.first_words), *self.said)
        return any(text in words for words in shown)


class MemoryStore:
    """Keeps journals in this process. `clock` gives seconds since 1970."""

    def __init__(
        self, *, lease_seconds: float = LEASE_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        self._sessions: dict[str, _Kept] = {}
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._lock = Lock()  # several threads, each with a loop of its own, may share the store

    async def create(self, session: str, started: EncodedEntry[SessionStarted], owner: Owner) -> Lease:
        check_session_id(session)
        with self._lock:
            if session in self._sessions:
                raise errors.session_exists(session)
            now = self._clock()
            first = started.entry
            info = SessionInfo(id=session, directory=first.directory, created=now, parent=first.parent)
            kept = _Kept(info)
            kept.write((started,), now)
            self._sessions[session] = kept
            return self._give(kept, owner, now)

    async def claim(self, session: str, owner: Owner, *, take_over: bool = False) -> Lease:
        with self._lock:
            kept, now = self._kept(session), self._clock()
            if not take_over:
                refuse_busy(session, kept.hold, now, claimant=owner)
            return self._give(kept, owner, now)

    async def renew(self, lease: Lease) -> None:
        with self._lock:
            kept = self._held(lease)
            if kept.hold is not None:
                kept.hold = structs.replace(kept.hold, until=self._clock() + self._lease_seconds)

    async def release(self, lease: Lease) -> None:
        with self._lock:
            kept = self._sessions.get(lease.session)
            if kept is not None and kept.holds(lease):
                kept.hold = None

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        with self._lock:
            return self._held(lease).write(entries, self._clock())

    async def read(self, session: str, *, after: int = 0) -> list[Record]:
        with self._lock:
            bodies = self._kept(session).bodies[after:]
        return [Record(seq, at, decode_entry(body)) for seq, (at, body) in enumerate(bodies, after + 1)]

    async def find(self, *, text: str = "", parent: str = "", limit: int = 50) -> list[SessionInfo]:
        wanted = fold_text(text)
        with self._lock:
            now = self._clock()
            found = [
                structs.replace(kept.info, holder=_holder(kept, now))
                for kept in self._sessions.values()
                if is_shown(kept.info, parent) and (not wanted or kept.mentions(wanted))
            ]
        return sorted(found, key=lambda info: info.updated, reverse=True)[:limit]

    async def delete(self, session: str) -> None:
        with self._lock:
            self._kept(session)
            family = self._family(session)
            now = self._clock()
            for name in family:
                refuse_busy(name, self._sessions[name].hold, now)
            for name in family:
                del self._sessions[name]

    async def close(self) -> None:
        """Nothing to do: what is kept stays readable."""

    def _family(self, session: str) -> list[str]:
        """The session, its subagents' sessions, and theirs."""
        family = [session]
        for parent in family:
            family += [
                name
                for name, kept in self._sessions.items()
                if (link := kept.info.parent) is not None and link.call and link.session == parent
            ]
        return family

    def _kept(self, session: str) -> _Kept:
        kept = self._sessions.get(session)
        if kept is None:
            raise errors.unknown_session(session)
        return kept

    def _held(self, lease: Lease) -> _Kept:
        kept = self._sessions.get(lease.session)
        if kept is None or not kept.holds(lease):
            raise errors.fenced(lease.session)
        return kept

    def _give(self, kept: _Kept, owner: Owner, now: float) -> Lease:
        kept.epoch += 1
        kept.hold = Hold(owner, now, now + self._lease_seconds)
        return Lease(kept.info.id, owner, kept.epoch)


def _holder(kept: _Kept, now: float) -> Owner | None:
    return kept.hold.owner if kept.hold is not None and kept.hold.lasts(now) else None

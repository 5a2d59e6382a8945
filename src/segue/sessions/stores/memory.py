"""Sessions that end with their process: for tests, and for chats that are not kept."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import structs

from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Entry, Record, SessionStarted
from segue.sessions.entry_codec import EncodedEntry, decode_entry
from segue.sessions.leases import LEASE_SECONDS, Claim, Lease, active_owner, refuse_busy
from segue.sessions.listing import fold_text, is_shown, listing_change, mentions, update_info
from segue.sessions.stores.store import SessionInfo, check_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.sessions.leases import Owner


class _StoredSession:
    """One session."""

    def __init__(self, info: SessionInfo) -> None:
        self.info = info
        self.bodies: list[tuple[float, bytes]] = []
        self.said: list[str] = []
        self.epoch = 0
        self.claim: Claim | None = None

    def write(self, entries: Sequence[EncodedEntry[Entry]], times: Sequence[float]) -> int:
        bodies = [(at, bytes(encoded.body)) for at, encoded in zip(times, entries, strict=True)]
        change = listing_change(encoded.entry for encoded in entries)
        self.bodies += bodies
        self.said += change.texts
        self.info = update_info(self.info, change, entries=len(self.bodies), updated=times[-1])
        return len(self.bodies)


class MemoryStore:
    """Keeps journals in this process. `clock` gives seconds since 1970."""

    def __init__(
        self, *, lease_seconds: float = LEASE_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        self._sessions: dict[str, _StoredSession] = {}
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._lock = Lock()  # several threads, each with a loop of its own, may share the store

    async def create(
        self,
        session: str,
        started: EncodedEntry[SessionStarted],
        owner: Owner,
        *,
        more: Sequence[EncodedEntry[Entry]] = (),
        times: Sequence[float] = (),
    ) -> Lease:
        check_session_id(session)
        with self._lock:
            if session in self._sessions:
                raise errors.session_exists(session)
            now = self._clock()
            first, entries = started.entry, (started, *more)
            at = [*times] or [now] * len(entries)
            info = SessionInfo(id=session, directory=first.directory, created=at[0], parent=first.parent)
            stored = _StoredSession(info)
            stored.write(entries, at)
            self._sessions[session] = stored
            return self._grant(stored, owner, now)

    async def claim(self, session: str, owner: Owner, *, take_over: bool = False) -> Lease:
        with self._lock:
            stored, now = self._stored(session), self._clock()
            if not take_over:
                refuse_busy(session, stored.claim, now, claimant=owner)
            return self._grant(stored, owner, now)

    async def renew(self, lease: Lease) -> None:
        with self._lock:
            stored = self._leased(lease)
            if stored.claim is not None:
                stored.claim = structs.replace(stored.claim, until=self._clock() + self._lease_seconds)

    async def release(self, lease: Lease) -> None:
        with self._lock:
            stored = self._sessions.get(lease.session)
            if stored is not None and lease.is_current(stored.epoch, stored.claim):
                stored.claim = None

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        with self._lock:
            return self._leased(lease).write(entries, [self._clock()] * len(entries))

    async def read(self, session: str, *, after: int = 0) -> list[Record]:
        with self._lock:
            bodies = self._stored(session).bodies[after:]
        return [Record(seq, at, decode_entry(body)) for seq, (at, body) in enumerate(bodies, after + 1)]

    async def salvage(self, session: str) -> list[Record | DamagedEntry]:
        return [*await self.read(session)]  # memory is not damaged

    async def find(
        self, *, text: str = "", parent: str = "", used: bool = False, limit: int = 50
    ) -> list[SessionInfo]:
        wanted = fold_text(text)
        with self._lock:
            now = self._clock()
            found = [
                structs.replace(stored.info, holder=active_owner(stored.claim, now))
                for stored in self._sessions.values()
                if is_shown(stored.info, parent, used=used) and mentions(stored.info, stored.said, wanted)
            ]
        return sorted(found, key=lambda info: info.updated, reverse=True)[:limit]

    async def delete(self, session: str) -> None:
        with self._lock:
            self._stored(session)
            family = self._family(session)
            now = self._clock()
            for name in family:
                refuse_busy(name, self._sessions[name].claim, now)
            for name in family:
                del self._sessions[name]

    async def close(self) -> None:
        """Does nothing: the entries stay readable."""

    def _family(self, session: str) -> list[str]:
        """The session, its subagents' sessions, and theirs."""
        family = [session]
        for parent in family:
            family += [
                name
                for name, stored in self._sessions.items()
                if (link := stored.info.parent) is not None and link.call and link.session == parent
            ]
        return family

    def _stored(self, session: str) -> _StoredSession:
        stored = self._sessions.get(session)
        if stored is None:
            raise errors.unknown_session(session)
        return stored

    def _leased(self, lease: Lease) -> _StoredSession:
        stored = self._sessions.get(lease.session)
        if stored is None or not lease.is_current(stored.epoch, stored.claim):
            raise errors.fenced(lease.session)
        return stored

    def _grant(self, stored: _StoredSession, owner: Owner, now: float) -> Lease:
        stored.epoch += 1
        stored.claim = Claim(owner, now, now + self._lease_seconds)
        return Lease(stored.info.id, owner, stored.epoch)

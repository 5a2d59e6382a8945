"""A store of one's own: anything with these ten methods is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

from segue import Chat
from segue.stores import (
    DamagedEntry,
    EncodedEntry,
    Entry,
    Journal,
    JsonlStore,
    Lease,
    MemoryStore,
    Owner,
    Record,
    SessionInfo,
    SessionStarted,
    SQLiteStore,
    Store,
)
from segue.testing import check_store


class Counting:
    """Counts what is written to another store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.written = 0

    async def create(
        self,
        session: str,
        started: EncodedEntry[SessionStarted],
        owner: Owner,
        *,
        more: Sequence[EncodedEntry[Entry]] = (),
        times: Sequence[float] = (),
    ) -> Lease:
        return await self.store.create(session, started, owner, more=more, times=times)

    async def claim(self, session: str, owner: Owner, *, take_over: bool = False) -> Lease:
        return await self.store.claim(session, owner, take_over=take_over)

    async def renew(self, lease: Lease) -> None:
        await self.store.renew(lease)

    async def release(self, lease: Lease) -> None:
        await self.store.release(lease)

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        self.written += len(entries)
        return await self.store.append(lease, entries)

    async def read(self, session: str, *, after: int = 0) -> list[Record]:
        return await self.store.read(session, after=after)

    async def salvage(self, session: str) -> list[Record | DamagedEntry]:
        return await self.store.salvage(session)

    async def find(
        self, *, text: str = "", parent: str = "", used: bool = False, limit: int = 50
    ) -> list[SessionInfo]:
        return await self.store.find(text=text, parent=parent, used=used, limit=limit)

    async def delete(self, session: str) -> None:
        await self.store.delete(session)

    async def close(self) -> None:
        await self.store.close()


async def make_store() -> Store:
    return Counting(MemoryStore())


async def check() -> None:
    await check_store(make_store)
    journal = await Journal.resume(await make_store(), "trip")
    assert_type(journal, Journal)
    assert_type(await journal.store.read("trip"), list[Record])


Chat("openai/any", store=Counting(JsonlStore("sessions")))
Chat("openai/any", store=SQLiteStore("sessions.db"))
Chat("openai/any", store=object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

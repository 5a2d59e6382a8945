"""A store of one's own: it keeps a plain audit log beside another store, and passes the suite for stores.

Run: python examples/own_store.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from segue import Chat, MemoryStore, ScriptedProvider
from segue.providers import says
from segue.stores import (
    DamagedEntry,
    EncodedEntry,
    Entry,
    Lease,
    Owner,
    Record,
    SessionInfo,
    SessionStarted,
    Store,
)
from segue.testing import check_store


class AuditedStore:
    """Whatever is written goes to `audit` too, once it is durable."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.audit: list[str] = []

    async def create(
        self,
        session: str,
        started: EncodedEntry[SessionStarted],
        owner: Owner,
        *,
        more: Sequence[EncodedEntry[Entry]] = (),
        times: Sequence[float] = (),
    ) -> Lease:
        lease = await self.store.create(session, started, owner, more=more, times=times)
        self.audit += [f"{session}: {type(encoded.entry).__name__}" for encoded in (started, *more)]
        return lease

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        last = await self.store.append(lease, entries)
        self.audit += [f"{lease.session}: {type(encoded.entry).__name__}" for encoded in entries]
        return last

    async def claim(self, session: str, owner: Owner, *, take_over: bool = False) -> Lease:
        return await self.store.claim(session, owner, take_over=take_over)

    async def renew(self, lease: Lease) -> None:
        await self.store.renew(lease)

    async def release(self, lease: Lease) -> None:
        await self.store.release(lease)

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


async def main() -> None:
    store = AuditedStore(MemoryStore())
    provider = ScriptedProvider([says("Noted.")])
    async with Chat("scripted/any", store=store, session="trip", providers={"scripted": provider}) as chat:
        await chat.send("We leave on Friday.")
    print("\n".join(store.audit))

    shared = AuditedStore(MemoryStore())

    async def open_store() -> Store:
        return shared

    await check_store(open_store)  # raises AssertionError with the name of the check and what it expected
    print("It is a store.")


asyncio.run(main())

# Prints:
# trip: SessionStarted
# trip: UserSaid
# trip: ModelReplied
# trip: TurnEnded
# It is a store.

"""The stores there are, each at a place of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Thread

from postgres_server import schema_url
from segue.conversation.message import user
from segue.sessions.entries import SessionStarted, UserSaid
from segue.sessions.journal import Journal
from segue.sessions.leases import LEASE_SECONDS
from segue.sessions.stores.jsonl import JsonlStore
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.postgres import PostgresStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import Store

FILES = ("sqlite", "jsonl")
DURABLE = (*FILES, "postgres")
KINDS = ("memory", *DURABLE)


def open_store(kind: str, place: Path, lease_seconds: float = LEASE_SECONDS) -> Store:
    if kind == "sqlite":
        return SQLiteStore(place / "sessions.db", lease_seconds=lease_seconds)
    if kind == "jsonl":
        return JsonlStore(place / "sessions", lease_seconds=lease_seconds)
    if kind == "postgres":
        return PostgresStore(schema_url(place), lease_seconds=lease_seconds)
    return MemoryStore(lease_seconds=lease_seconds)


def opener(kind: str, place: Path) -> Callable[[], Awaitable[Store]]:
    """Each call another connection to the same place; memory has but one."""
    shared = open_store(kind, place)

    async def open_again() -> Store:
        return shared if kind == "memory" else open_store(kind, place)

    return open_again


def append_from_threads(store: Store, *, threads: int, appends: int) -> list[int]:
    """Begin a session in each of some threads with loops of their own; how many entries each of them has then."""
    counts: list[int] = []

    async def append() -> None:
        journal = await Journal.start(store, SessionStarted())
        for _ in range(appends):
            await journal.append(UserSaid(user("Hello")))
        counts.append(len(await store.read(journal.session)))

    running = [Thread(target=lambda: asyncio.run(append())) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return counts

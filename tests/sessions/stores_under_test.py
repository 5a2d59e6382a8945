"""The stores there are, each at a place of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from postgres_server import schema_url
from segue.sessions.leases.lease import LEASE_SECONDS
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

"""The gateway's memory as the settings describe it: its file, and the key beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.config.paths import gateway_directory
from segue.gateway.memory.installation_key import read_key
from segue.gateway.memory.memory import Memory

if TYPE_CHECKING:
    from segue.config.schema import MemorySettings
    from segue.gateway.memory.store import GatewayStore


def open_memory(settings: MemorySettings) -> Memory:
    """Nothing is read before it is used, but for the key, which is made if there is none."""
    directory = gateway_directory(settings.directory)
    return Memory(_open_store(settings), read_key(directory / "key"))


def _open_store(settings: MemorySettings) -> GatewayStore:
    keep_seconds = settings.days * 86_400.0
    match settings.keep:
        case "memory":
            from segue.gateway.memory.volatile_store import VolatileStore  # noqa: PLC0415

            return VolatileStore(
                max_bytes=settings.max_bytes, max_records=settings.max_replies, keep_seconds=keep_seconds
            )
        case "sqlite":
            from segue.gateway.memory.sqlite_store import SQLiteMemoryStore  # noqa: PLC0415

            return SQLiteMemoryStore(
                gateway_directory(settings.directory) / "memory.db",
                max_bytes=settings.max_bytes,
                max_records=settings.max_replies,
                keep_seconds=keep_seconds,
            )

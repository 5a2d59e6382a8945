"""The gateway's memory as the settings describe it: its file or database, and the key of the installation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segue.config.paths import gateway_directory
from segue.config.resources import postgres_missing
from segue.gateway.memory.installation_key import InstallationKey, decode_key, read_key
from segue.gateway.memory.memory import Memory
from segue.redaction import remember_secret_variable

if TYPE_CHECKING:
    from segue.config.schema import Config, MemorySettings
    from segue.gateway.memory.store import GatewayStore


def open_memory(config: Config) -> Memory:
    """Nothing is read before it is used, but for the key, which is made if there is none."""
    key = open_key(config.gateway.memory)
    return Memory(_open_store(config, key), key)


def open_key(settings: MemorySettings) -> InstallationKey:
    """From the variable that nodes on several machines share, else from the file of this one."""
    if held := os.environ.get(settings.key_env, ""):
        remember_secret_variable(settings.key_env)
        return decode_key(held, settings.key_env)
    return read_key(gateway_directory(settings.directory) / "key")


def _open_store(config: Config, key: InstallationKey) -> GatewayStore:
    settings = config.gateway.memory
    keep_seconds = settings.days * 86_400.0
    if config.store and settings.keep == "sqlite":
        try:
            from segue.gateway.memory.postgres_store import PostgresMemoryStore  # noqa: PLC0415
        except ImportError as error:
            raise postgres_missing() from error
        return PostgresMemoryStore(
            config.store,
            key_check=key.digest("check"),
            max_bytes=settings.max_bytes,
            max_records=settings.max_replies,
            keep_seconds=keep_seconds,
        )
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

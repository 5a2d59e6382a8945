"""Where the gateway keeps its memory and its accounts, as the settings describe it: in a database, in files, or only until the
process ends. Nothing is read before it is used, but for the key of the installation, which is made if there is none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segue.config.paths import gateway_directory
from segue.config.session_stores import postgres_missing
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.memory.installation_key import decode_key, read_key
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.text.redaction import remember_secret_variable

if TYPE_CHECKING:
    from segue.config.schema import Config, MemorySettings
    from segue.gateway.accounts.store import AccountStore
    from segue.gateway.memory.installation_key import InstallationKey
    from segue.gateway.memory.store import GatewayStore


def open_memory(config: Config, earlier: Memory | None = None) -> Memory:
    """`earlier`: of the gateway that this one replaces; what only the process keeps is taken over."""
    key = open_key(config.gateway.memory)
    return Memory(_open_memory_store(config, key, earlier.store if earlier is not None else None), key)


def open_key(settings: MemorySettings) -> InstallationKey:
    """From the variable that nodes on several machines share, else from the file of this one."""
    if held := os.environ.get(settings.key_env, ""):
        remember_secret_variable(settings.key_env)
        return decode_key(held, settings.key_env)
    return read_key(gateway_directory(settings.directory) / "key")


def _open_memory_store(config: Config, key: InstallationKey, earlier: GatewayStore | None) -> GatewayStore:
    settings = config.gateway.memory
    keep_seconds = settings.days * 86_400.0
    if settings.keep == "memory" and isinstance(earlier, SQLiteMemoryStore) and earlier.is_volatile:
        return earlier
    if config.store and settings.keep != "memory":
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
            patience=config.gateway.limits.store_timeout,
        )
    return SQLiteMemoryStore(
        None if settings.keep == "memory" else gateway_directory(settings.directory) / "memory.db",
        max_bytes=settings.max_bytes,
        max_records=settings.max_replies,
        keep_seconds=keep_seconds,
        patience=config.gateway.limits.store_timeout,
    )


def open_account_store(config: Config, earlier: AccountStore | None = None) -> AccountStore:
    """`earlier`: as for the memory."""
    settings = config.gateway
    patience = settings.limits.store_timeout
    if settings.memory.keep == "memory":
        if isinstance(earlier, SQLiteAccountStore) and earlier.is_volatile:
            return earlier
        return SQLiteAccountStore(keep_days=settings.accounts.days)
    if config.store:
        try:
            from segue.gateway.accounts.postgres_store import PostgresAccountStore  # noqa: PLC0415
        except ImportError as error:
            raise postgres_missing() from error
        return PostgresAccountStore(config.store, keep_days=settings.accounts.days, patience=patience)
    directory = gateway_directory(settings.memory.directory)
    return SQLiteAccountStore(directory / "accounts.db", keep_days=settings.accounts.days, patience=patience)

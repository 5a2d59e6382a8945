"""The accounts as the settings describe them: where they are kept."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from segue.config.paths import gateway_directory
from segue.config.resources import postgres_missing
from segue.gateway.accounts.register import Accounts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from segue.config.schema import Config
    from segue.gateway.accounts.store import AccountStore


def open_accounts(config: Config, on_reserve: Callable[[str, float], None]) -> Accounts:
    """Nothing is read before it is used."""
    settings = config.gateway
    store = open_account_store(config)
    return Accounts(store, settings.callers, settings.accounts, on_reserve=on_reserve)


@asynccontextmanager
async def opened_account_store(config: Config) -> AsyncIterator[AccountStore]:
    """Open while the block runs."""
    store = open_account_store(config)
    try:
        yield store
    finally:
        await store.close()


def open_account_store(config: Config) -> AccountStore:
    """Beside the memory of replies: in the database, in a file, or only until the process ends."""
    settings = config.gateway
    if settings.memory.keep == "memory":
        from segue.gateway.accounts.volatile_store import VolatileAccountStore  # noqa: PLC0415

        return VolatileAccountStore()
    if config.store:
        try:
            from segue.gateway.accounts.postgres_store import PostgresAccountStore  # noqa: PLC0415
        except ImportError as error:
            raise postgres_missing() from error
        return PostgresAccountStore(config.store, keep_days=settings.accounts.days)
    from segue.gateway.accounts.sqlite_store import SQLiteAccountStore  # noqa: PLC0415

    directory = gateway_directory(settings.memory.directory)
    return SQLiteAccountStore(directory / "accounts.db", keep_days=settings.accounts.days)

"""The accounts as the settings describe them: where they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.config.paths import gateway_directory
from segue.config.resources import postgres_missing
from segue.gateway.accounts.register import Accounts

if TYPE_CHECKING:
    from segue.config.schema import Config
    from segue.gateway.accounts.store import AccountStore


def open_accounts(config: Config) -> Accounts:
    """Nothing is read before it is used."""
    settings = config.gateway
    return Accounts(open_account_store(config), settings.callers, settings.accounts)


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

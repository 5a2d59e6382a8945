"""The accounts as the settings describe them: where they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.config.paths import gateway_directory
from segue.gateway.accounts.register import Accounts

if TYPE_CHECKING:
    from segue.config.schema import GatewaySettings
    from segue.gateway.accounts.store import AccountStore


def open_accounts(settings: GatewaySettings) -> Accounts:
    """Nothing is read before it is used."""
    return Accounts(open_account_store(settings), settings.callers, settings.accounts)


def open_account_store(settings: GatewaySettings) -> AccountStore:
    """Beside the memory of replies, and kept as long as that: in a file, or only until the process ends."""
    if settings.memory.keep == "memory":
        from segue.gateway.accounts.volatile_store import VolatileAccountStore  # noqa: PLC0415

        return VolatileAccountStore()
    from segue.gateway.accounts.sqlite_store import SQLiteAccountStore  # noqa: PLC0415

    directory = gateway_directory(settings.memory.directory)
    return SQLiteAccountStore(directory / "accounts.db", keep_days=settings.accounts.days)

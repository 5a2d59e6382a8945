"""Whose key it is: the accounts of the configuration and of the store, by the digests of their keys. A change in the store reaches
every gateway within a second."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING, Final, final

from segue.config.schema import Allowance
from segue.errors import JournalError, OverloadError
from segue.gateway.accounts.account import ANYONE, Account, KeyDigest, digest_of, moment_of
from segue.gateway.requests.client_errors import caller_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.config.schema import CallerSettings
    from segue.gateway.accounts.store import AccountStore

REFRESH_SECONDS: Final = 0.5
_LOG: Final = logging.getLogger("segue.gateway")


@final
class CallerKeys:
    """Those of all accounts, as they were in the store a moment ago."""

    def __init__(
        self,
        store: AccountStore,
        callers: Mapping[str, CallerSettings],
        *,
        local: bool,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._configured = {name: account_of(name, caller) for name, caller in callers.items()}
        self._local = local
        self._clock = clock
        self.is_open = local and not callers
        """Whether there are no accounts, so that whoever reaches the gateway from this machine is its user."""
        self._by_digest: dict[str, tuple[Account, KeyDigest]] = {}
        self._revision = -1
        self._checked = float("-inf")
        self._first_reading = asyncio.Lock()

    async def find(self, keys: Sequence[str]) -> Account:
        """The account of the first key that is valid. Raises the error of an unknown key."""
        if self._revision < 0:
            # Before it has ended nobody is known, and nobody may be taken for anyone.
            async with self._first_reading:
                await self._refresh()
        else:
            await self._refresh()
        if self.is_open:
            return ANYONE
        now = self._clock()
        for key in keys:
            # The digest of a long random key: how long the look-up takes gives nothing away that could be used.
            found = self._by_digest.get(digest_of(key))
            if found is not None and found[0].revoked is None and found[1].is_valid(now):
                return found[0]
        raise caller_error(keys)

    async def find_digest(self, sha256: str) -> Account | None:
        """The account of a key that is valid, by the digest of the key; for an empty one that of everybody, where there are no
        accounts. None if there is no such account any more."""
        async with self._first_reading:
            await self._refresh()
        if not sha256 or self.is_open:
            return ANYONE if self.is_open and not sha256 else None
        found = self._by_digest.get(sha256)
        if found is None or found[0].revoked is not None or not found[1].is_valid(self._clock()):
            return None
        return found[0]

    def named(self, name: str) -> Account | None:
        """The account as it was in the store a moment ago; None if there is none with a key."""
        return next((account for account, _ in self._by_digest.values() if account.name == name), None)

    async def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked < REFRESH_SECONDS:
            return
        self._checked = now
        try:
            revision = await self._store.revision()
            if revision != self._revision:
                self._adopt(await self._store.accounts())
                self._revision = revision
        except JournalError as error:
            if self._revision < 0:
                self._checked = float("-inf")
                _LOG.error("The accounts cannot be read, so all requests are refused: %s", error)
                raise OverloadError(
                    "The gateway cannot read its accounts.", code="accounts_away", retry_after=5.0
                ) from error
            _LOG.warning("The accounts could not be read anew: %s", error)

    def _adopt(self, stored: Sequence[Account]) -> None:
        others = {account.name: account for account in stored if account.name not in self._configured}
        # Of two with the same key the stored one counts, with its limits: a caller's own key may be in the environment of a
        # gateway that `segue run` starts.
        accounts = {**self._configured, **others}
        self._by_digest = {
            key.sha256: (account, key) for account in accounts.values() for key in account.keys
        }
        self.is_open = self._local and not accounts
        if not (accounts or self._local):
            _LOG.error(
                "No caller is known, and other machines reach the gateway: all requests are refused. "
                "Make a caller's key: segue gateway keys create NAME"
            )


def account_of(name: str, caller: CallerSettings) -> Account:
    """Of a caller that the configuration has."""
    given = os.environ.get(caller.key_env, "") if caller.key_env else ""
    digest = digest_of(given) if given else caller.key_sha256.lower()
    key = KeyDigest(sha256=digest, expires=moment_of(caller.expires))
    limits = {field: getattr(caller, field) for field in Allowance.__struct_fields__}
    return Account(
        name=name, keys=(key,) if digest else (), allowance=Allowance(**limits), admin=caller.admin
    )

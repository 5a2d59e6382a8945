"""The accounts of a gateway's callers: whose key it is, whether a request may be sent, and what it came to.

Settling and counting happen after the reply, never before its first byte.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, final

from segue.config.schema import Allowance
from segue.gateway.accounts.account import ANYONE
from segue.gateway.accounts.administration import Administration
from segue.gateway.accounts.budget_rules import Standing, spend
from segue.gateway.accounts.caller_keys import CallerKeys
from segue.gateway.accounts.reservations import Reservations
from segue.gateway.accounts.settlements import Settlements
from segue.providers.models.prices import CATALOG_PRICES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.config.schema import AccountSettings, CallerSettings
    from segue.gateway.accounts.account import Account
    from segue.gateway.accounts.budget_rules import Charge
    from segue.gateway.accounts.store import AccountStore, Admission, UsageRow
    from segue.providers.models.prices import PriceBook

__all__ = ["ANYONE", "Accounts"]


@final
class Accounts:
    """Those of one gateway process. The store is shared."""

    def __init__(
        self,
        store: AccountStore,
        callers: Mapping[str, CallerSettings],
        settings: AccountSettings,
        *,
        local: bool = True,
        clock: Callable[[], float] = time.time,
        on_reserve: Callable[[str, float], None] = lambda *_: None,
        prices: PriceBook = CATALOG_PRICES,
    ) -> None:
        """`local`: only this machine reaches the gateway, so that without accounts anyone may use it. `on_reserve` gets a caller's
        name and how many dollars more or fewer its running requests hold."""
        self.store = store
        self._clock = clock
        self.prices = prices
        self.administration = Administration(store, clock=clock)
        self._keys = CallerKeys(store, callers, local=local, clock=clock)
        self._settlements = Settlements(store)
        self._reservations = Reservations(
            store, self._settlements, settings, clock=clock, on_reserve=on_reserve
        )

    @property
    def is_open(self) -> bool:
        """Whether there are no accounts, so that whoever reaches the gateway from this machine is its user."""
        return self._keys.is_open

    async def find(self, keys: Sequence[str]) -> Account:
        """The account of the first key that is valid. Raises the error of an unknown key."""
        return await self._keys.find(keys)

    async def find_digest(self, sha256: str) -> Account | None:
        """The account of a key that is valid, by the digest of the key; None if there is none any more."""
        return await self._keys.find_digest(sha256)

    async def spent(self, name: str) -> tuple[Allowance, Standing]:
        """What a caller may use and has used by now."""
        account = self._keys.named(name)
        if account is None:
            return Allowance(), Standing()
        standing, reserved = await self.store.standing(name)
        return account.allowance, spend(standing, reserved.expired, self._clock())

    async def admit(self, account: Account, estimate: Charge) -> Admission | None:
        """Reserve what the request may come to; None if nobody could count it. Raises what it would go beyond."""
        return await self._reservations.admit(account, estimate)

    def ended(self, admission: Admission | None, used: Charge, *rows: UsageRow) -> None:
        """A request has ended, in whatever way."""
        if admission is not None:
            self._reservations.end(admission, used, rows)
        else:
            self._settlements.record_later(rows)

    async def settled(self) -> None:
        """Wait until everything that has ended is counted."""
        self._reservations.stop_renewal()
        await self._settlements.finish(self._reservations.release_unused)

    async def close(self) -> None:
        await self.settled()
        await self.store.close()

"""Whether a request may be sent: what it may come to is reserved in the store, or taken from a block that this process holds."""

from __future__ import annotations

import asyncio
import logging
from secrets import token_hex
from typing import TYPE_CHECKING, Final, final

from segue.errors import JournalError, OverloadError, StoreUnreachableError
from segue.gateway.accounts.budget_rules import MILLION, Charge, Refusal, is_far_from_limits
from segue.gateway.accounts.leased_quota import LEASE_SECONDS, LeasedQuota
from segue.gateway.accounts.store import RESERVED_SECONDS, Admission, Settlement
from segue.gateway.requests.client_errors import limit_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.config.schema import AccountSettings
    from segue.gateway.accounts.account import Account
    from segue.gateway.accounts.settlements import Settlements
    from segue.gateway.accounts.store import AccountStore, UsageRow

_FREED_BY_ENDS: Final = frozenset({"concurrent", "reserved", "tokens"})
_LATE_SECONDS: Final = 1.0
"""After which the store has answered a request that nobody waits for any more."""
_LOG: Final = logging.getLogger("segue.gateway")


@final
class Reservations:
    """Those of the requests that run in this process."""

    def __init__(
        self,
        store: AccountStore,
        settlements: Settlements,
        settings: AccountSettings,
        *,
        clock: Callable[[], float],
        on_reserve: Callable[[str, float], None],
    ) -> None:
        self._store = store
        self._settlements = settlements
        self._settings = settings
        self._clock = clock
        self._on_reserve = on_reserve
        self._running: dict[str, Admission] = {}
        self._quotas: dict[str, LeasedQuota] = {}
        self._heart: asyncio.Task[None] | None = None

    async def admit(self, account: Account, estimate: Charge) -> Admission | None:
        """Reserve what the request may come to; None if nobody could count it. Raises what it would go beyond."""
        quota = self._quotas.get(account.name)
        if quota is None:
            quota = self._quotas[account.name] = LeasedQuota(self._clock)
        decided = await self._reserve(quota, account, estimate)
        for _ in range(2):
            if not isinstance(decided, Refusal) or decided.limit not in _FREED_BY_ENDS:
                break
            # What is being settled, what has ended meanwhile, and what is held may be all that stands in the way.
            self._give_back_unused(quota.release())
            self._settlements.settle_next()
            if self._settlements.running is None:
                break
            await asyncio.wait([self._settlements.running])
            decided = await self._reserve_one(account, estimate)
        if decided is None:
            return None
        if isinstance(decided, Refusal):
            raise limit_error(account, decided)
        self._running[decided.id] = decided
        self._on_reserve(account.name, decided.estimate.micros / MILLION)
        if self._heart is None:
            self._heart = self._settlements.start(self._beat())
        return decided

    async def _reserve(
        self, quota: LeasedQuota, account: Account, estimate: Charge
    ) -> Admission | Refusal | None:
        """From the block that this process holds, or else by itself. Those who come while a block is taken wait for it."""
        quota.note(estimate)
        while (held := quota.take(account, estimate)) is None:
            if quota.taking is None:
                size, requests = quota.wanted()
                if requests == 1:
                    return await self._reserve_one(account, estimate)
                quota.taking = self._settlements.start(self._take_block(quota, account, size, requests))
            quota.waiting += 1
            try:
                await asyncio.wait([quota.taking])
            finally:
                quota.waiting -= 1
        return held

    async def _take_block(
        self, quota: LeasedQuota, account: Account, estimate: Charge, requests: int
    ) -> None:
        """A task of its own: a client that leaves takes nothing from the others. What goes wrong with it, each request finds out
        for itself."""
        quota.stay_alone()  # unless there is one
        block_id = token_hex(12)
        try:
            block = await self._store.admit(block_id, account, estimate, more=requests - 1)
        except JournalError as error:
            if _may_be_done(error):
                asked = Admission(id=block_id, account=account, estimate=estimate, slots=requests)
                self._settlements.start(self._give_back(asked))
            return
        finally:
            quota.taking = None
        if not isinstance(block, Refusal):
            self._give_back_unused(quota.hold(block))
            asyncio.get_running_loop().call_later(
                LEASE_SECONDS, lambda: self._give_back_unused(quota.release(block))
            )

    def _give_back_unused(self, slots: Sequence[Admission]) -> None:
        """Nothing was spent. For the rates they count as used: as much fills in the time for which a block may be held."""
        if slots:
            self._settlements.add(Settlement(slot, Charge(slot.estimate.tokens)) for slot in slots)

    async def _reserve_one(self, account: Account, estimate: Charge) -> Admission | Refusal | None:
        admission_id = token_hex(12)
        try:
            return await self._store.admit(admission_id, account, estimate)
        except asyncio.CancelledError:
            # The client has gone; the store may reserve it all the same, and nothing was sent.
            self._settlements.start(
                self._give_back(Admission(id=admission_id, account=account, estimate=estimate))
            )
            raise
        except JournalError as error:
            if _may_be_done(error):
                self._settlements.start(
                    self._give_back(Admission(id=admission_id, account=account, estimate=estimate))
                )
            if self._settings.when_away == "allow":
                _LOG.warning("A request was not counted: %s", error)
                return None
            raise OverloadError(
                "The gateway cannot check this caller's limits.",
                code="accounts_away",
                retry_after=5.0,
                hint="The operator of the gateway has to repair its store.",
            ) from error

    async def _give_back(self, admission: Admission) -> None:
        await asyncio.sleep(_LATE_SECONDS)
        self._settlements.add(
            Settlement(admission.slot(number), Charge()) for number in range(admission.slots)
        )

    async def _beat(self) -> None:
        """Reservations hold while their requests run and this process lives."""
        while True:
            await asyncio.sleep(RESERVED_SECONDS / 3)
            if self._running:
                try:
                    await self._store.renew(list(self._running))
                except JournalError as error:
                    _LOG.warning("Reservations were not renewed: %s", error)

    def end(self, admission: Admission, used: Charge, rows: Sequence[UsageRow]) -> None:
        """Its request has ended, in whatever way."""
        self._running.pop(admission.id, None)
        self._on_reserve(admission.account.name, -admission.estimate.micros / MILLION)
        limits, standing, reserved = admission.account.allowance, admission.standing, admission.reserved
        far = is_far_from_limits(limits, standing, reserved, admission.estimate, self._clock())
        self._settlements.add([Settlement(admission, used, tuple(rows))], can_wait=far)

    def release_unused(self) -> None:
        for quota in self._quotas.values():
            self._give_back_unused(quota.release())

    def stop_renewal(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
            self._heart = None


def _may_be_done(error: JournalError) -> bool:
    return isinstance(error, StoreUnreachableError) and error.may_be_done

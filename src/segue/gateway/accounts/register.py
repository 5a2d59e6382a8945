"""The accounts of a gateway's callers: whose key it is, whether a request may be sent, and what it came to.

Accounts come from the configuration and from the store; a change in the store reaches every gateway within a second.
Settling and counting happen after the reply, never before its first byte.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, final

from segue.config.schema import Allowance
from segue.errors import JournalError, OverloadError, StoreUnreachableError
from segue.gateway.accounts.account import Account, KeyDigest, digest_of, moment_of
from segue.gateway.accounts.administration import Administration
from segue.gateway.accounts.admission import MILLION, Charge, Refusal, is_far_from_limits
from segue.gateway.accounts.leased_quota import LEASE_SECONDS, LeasedQuota
from segue.gateway.accounts.store import RESERVED_SECONDS, Admission, Settlement, UsageRow, add_usage
from segue.gateway.client_errors import caller_error, limit_error
from segue.providers.models.prices import CATALOG_PRICES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from segue.config.schema import AccountSettings, CallerSettings
    from segue.gateway.accounts.store import AccountStore
    from segue.providers.models.prices import PriceBook

ANYONE: Final = Account(name="local", admin=True)
"""The caller where there are no accounts: the gateway then serves this machine only, and its user is the operator."""
REFRESH_SECONDS: Final = 0.5
_FLUSH_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 0.05
"""Within which requests of callers that are far from their limits are settled: several together, and not just when the same
client sends its next request."""
_BATCH: Final = 100
"""Requests that are settled together."""
_FREED_BY_ENDS: Final = frozenset({"concurrent", "reserved", "tokens"})
_LATE_SECONDS: Final = 1.0
"""After which the store has answered a request that nobody waits for any more."""
_MOST_ROWS: Final = 10_000
"""Of usage that waits for a store which cannot be reached."""
_MOST_UNSETTLED: Final = 10_000
"""Requests that have ended and wait for such a store."""
_AGAIN_SECONDS: Final = 2.0
_LOG: Final = logging.getLogger("segue.gateway")


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
        """`local`: only this machine reaches the gateway, so that without accounts anyone may use it. `on_reserve` gets a caller's name and how many dollars more or fewer its running requests hold."""
        self.store = store
        self.prices = prices
        self.administration = Administration(store, clock=clock)
        self._settings = settings
        self._clock = clock
        self._on_reserve = on_reserve
        self._configured = {name: _configured(name, caller) for name, caller in callers.items()}
        self._by_digest: dict[str, tuple[Account, KeyDigest]] = {}
        self._local = local
        self._open_to_all = local and not callers
        self._revision = -1
        self._checked = float("-inf")
        self._first_reading = asyncio.Lock()
        self._running: dict[str, Admission] = {}
        self._quotas: dict[str, LeasedQuota] = {}
        self._ended: list[Settlement] = []
        self._unsettled: list[Settlement] = []
        self._again: asyncio.TimerHandle | None = None
        self._last_try = False
        self._settling: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._rows: dict[tuple[str, str, str, str], UsageRow] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._heart: asyncio.Task[None] | None = None
        self._flush: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether there are no accounts, so that whoever reaches the gateway from this machine is its user."""
        return self._open_to_all

    # Whose key it is

    async def find(self, keys: Sequence[str]) -> Account:
        """The account of the first key that is valid. Raises the error of an unknown key."""
        if self._revision < 0:
            # Before it has ended nobody is known, and nobody may be taken for anyone.
            async with self._first_reading:
                await self._refresh()
        else:
            await self._refresh()
        if self._open_to_all:
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
        if not sha256 or self._open_to_all:
            return ANYONE if self._open_to_all and not sha256 else None
        found = self._by_digest.get(sha256)
        if found is None or found[0].revoked is not None or not found[1].is_valid(self._clock()):
            return None
        return found[0]

    async def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked < REFRESH_SECONDS:
            return
        self._checked = now
        try:
            revision = await self.store.revision()
            if revision != self._revision:
                self._adopt(await self.store.accounts())
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
        self._open_to_all = self._local and not accounts
        if not (accounts or self._local):
            _LOG.error(
                "No caller is known, and other machines reach the gateway: all requests are refused. "
                "Make a caller's key: segue gateway keys create NAME"
            )

    # Whether a request may be sent

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
            self._settle_next()
            if self._settling is None:
                break
            await asyncio.wait([self._settling])
            decided = await self._reserve_one(account, estimate)
        if decided is None:
            return None
        if isinstance(decided, Refusal):
            raise limit_error(account, decided)
        self._running[decided.id] = decided
        self._on_reserve(account.name, decided.estimate.micros / MILLION)
        if self._heart is None:
            self._heart = self._start(self._beat())
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
                quota.taking = self._start(self._take_block(quota, account, size, requests))
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
            block = await self.store.admit(block_id, account, estimate, more=requests - 1)
        except JournalError as error:
            if _may_be_done(error):
                asked = Admission(id=block_id, account=account, estimate=estimate, slots=requests)
                self._start(self._give_back(asked))
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
            self._ended += [Settlement(slot, Charge(slot.estimate.tokens)) for slot in slots]
            self._settle_next()

    async def _reserve_one(self, account: Account, estimate: Charge) -> Admission | Refusal | None:
        admission_id = token_hex(12)
        try:
            return await self.store.admit(admission_id, account, estimate)
        except asyncio.CancelledError:
            # The client has gone; the store may reserve it all the same, and nothing was sent.
            self._start(self._give_back(Admission(id=admission_id, account=account, estimate=estimate)))
            raise
        except JournalError as error:
            if _may_be_done(error):
                self._start(self._give_back(Admission(id=admission_id, account=account, estimate=estimate)))
            if self._settings.when_away == "allow":
                _LOG.warning("A request was not counted: %s", error)
                return None
            raise OverloadError(
                "The gateway cannot check this caller's limits.",
                code="accounts_away",
                retry_after=5.0,
                hint="Whoever runs the gateway has to see to its store.",
            ) from error

    async def _give_back(self, admission: Admission) -> None:
        await asyncio.sleep(_LATE_SECONDS)
        self._ended += [Settlement(admission.slot(number), Charge()) for number in range(admission.slots)]
        self._settle_next()

    async def _beat(self) -> None:
        """Reservations hold while their requests run and this process lives."""
        while True:
            await asyncio.sleep(RESERVED_SECONDS / 3)
            if self._running:
                try:
                    await self.store.renew(list(self._running))
                except JournalError as error:
                    _LOG.warning("Reservations were not renewed: %s", error)

    # What it came to

    def ended(self, admission: Admission | None, used: Charge, *rows: UsageRow) -> None:
        """A request has ended, in whatever way."""
        if admission is not None:
            self._running.pop(admission.id, None)
            self._on_reserve(admission.account.name, -admission.estimate.micros / MILLION)
            self._ended.append(Settlement(admission, used, rows))
            limits, standing, reserved = admission.account.allowance, admission.standing, admission.reserved
            if not is_far_from_limits(limits, standing, reserved, admission.estimate, self._clock()):
                self._settle_next()
            elif self._later is None:
                self._later = asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self._settle_next)
        else:
            self._record_later(rows)

    def _record_later(self, rows: Sequence[UsageRow]) -> None:
        """Together with others: without limits, usage is all that a store is needed for."""
        for row in rows:
            if len(self._rows) < _MOST_ROWS or row.place in self._rows:
                add_usage(self._rows, row)
        if self._flush is None or self._flush.done():
            self._flush = self._start(self._flush_later())

    def _settle_next(self) -> None:
        """Requests that end while others are being settled are settled together after them."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._ended and self._settling is None:
            batch, self._ended = self._ended[:_BATCH], self._ended[_BATCH:]
            self._settling = self._start(self._settle(batch))
            self._settling.add_done_callback(self._after_settling)

    def _after_settling(self, settled: asyncio.Task[None]) -> None:
        self._settling = None
        if not settled.cancelled():
            self._settle_next()

    async def _settle(self, ended: Sequence[Settlement]) -> None:
        try:
            await self.store.settle(ended)
        except StoreUnreachableError as error:
            self._settle_again_later(ended, error)
        except Exception as error:
            if len(ended) > 1:
                # Only one of them may be at fault: the others count.
                for each in ended:
                    await self._settle([each])
                return
            if isinstance(error, JournalError):
                for each in ended:
                    self._record_later(each.rows)
            names = ", ".join(sorted({each.admission.account.name for each in ended}))
            _LOG.warning("What requests of %s cost was not counted: %s", names, _named(error))

    def _settle_again_later(self, ended: Sequence[Settlement], error: StoreUnreachableError) -> None:
        """It may have been done without an answer, so that nothing else than the same may be tried: a second time that does
        nothing. Meanwhile their reservations count."""
        room = 0 if self._last_try else max(0, _MOST_UNSETTLED - len(self._unsettled))
        self._unsettled += ended[:room]
        for each in ended[room:]:
            self._record_later(each.rows)
        if self._unsettled and self._again is None:
            self._again = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._settle_again)
        names = ", ".join(sorted({each.admission.account.name for each in ended}))
        _LOG.warning("What requests of %s cost was not counted%s: %s", names, " yet" if room else "", error)

    def _settle_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._ended, self._unsettled = [*self._unsettled, *self._ended], []
        self._settle_next()

    async def _flush_later(self) -> None:
        await asyncio.sleep(_FLUSH_SECONDS)
        await self._record()

    async def _record(self) -> None:
        rows, self._rows = self._rows, {}
        if not rows:
            return
        try:
            await self.store.record(list(rows.values()))
        except JournalError as error:
            _LOG.warning("Usage was not recorded yet: %s", error)
            for row in rows.values():
                add_usage(self._rows, row)
        except Exception:
            for row in rows.values():
                await self._record_alone(row)

    async def _record_alone(self, row: UsageRow) -> None:
        """One of several of which one cannot be kept."""
        try:
            await self.store.record([row])
        except Exception as error:
            _LOG.warning("Usage of %s was not recorded: %s", row.caller, _named(error))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settled(self) -> None:
        """Wait until everything that has ended is counted."""
        for task in (self._heart, self._flush):
            if task is not None:
                task.cancel()
        self._heart = self._flush = None
        self._last_try = True
        self._settle_again()
        while True:
            for quota in self._quotas.values():
                self._give_back_unused(quota.release())
            self._settle_next()
            if not self._tasks:
                break
            await asyncio.wait(self._tasks)
        await self._record()
        self._last_try = False

    async def close(self) -> None:
        await self.settled()
        await self.store.close()


def _named(error: Exception) -> str:
    return str(error) if isinstance(error, JournalError) else f"{type(error).__name__}: {error}"


def _may_be_done(error: JournalError) -> bool:
    return isinstance(error, StoreUnreachableError) and error.may_be_done


def _configured(name: str, caller: CallerSettings) -> Account:
    given = os.environ.get(caller.key_env, "") if caller.key_env else ""
    digest = digest_of(given) if given else caller.key_sha256.lower()
    key = KeyDigest(sha256=digest, expires=moment_of(caller.expires))
    limits = {field: getattr(caller, field) for field in Allowance.__struct_fields__}
    return Account(
        name=name, keys=(key,) if digest else (), allowance=Allowance(**limits), admin=caller.admin
    )

"""Accounts in this process only, for tests and for gateways that keep nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.gateway.accounts import admission as rules
from segue.gateway.accounts.admission import Refusal, Reserved, Standing
from segue.gateway.accounts.store import (
    LONGEST_HOLD,
    RESERVED_SECONDS,
    Admission,
    Settlement,
    UsageRow,
    add_usage,
    check_name,
    decide,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.gateway.accounts.account import Account
    from segue.gateway.accounts.admission import Charge


class _Reservation(Struct):
    name: str
    micros: int
    expires: float
    spent: bool = False

    def holds(self, now: float) -> bool:
        return now < self.expires <= now + LONGEST_HOLD


class VolatileAccountStore:
    """Forgets everything when the process ends."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._revision = 0
        self._accounts: dict[str, Account] = {}
        self._standings: dict[str, Standing] = {}
        self._reservations: dict[str, _Reservation] = {}
        self._usage: dict[tuple[str, str, str, str], UsageRow] = {}

    async def revision(self) -> int:
        return self._revision

    async def accounts(self) -> Sequence[Account]:
        return [self._accounts[name] for name in sorted(self._accounts)]

    async def save(self, account: Account, *, new: bool) -> None:
        check_name(account.name, known=account.name in self._accounts, new=new)
        self._accounts[account.name] = account
        self._revision += 1

    async def remove(self, name: str) -> None:
        check_name(name, known=name in self._accounts, new=False)
        del self._accounts[name]
        self._revision += 1

    async def standing(self, name: str) -> tuple[Standing, Reserved]:
        return self._standings.get(name, Standing()), self._reserved(name)

    async def admit(
        self, admission_id: str, account: Account, estimate: Charge, *, more: int = 0
    ) -> Admission | Refusal:
        now, reserved = self._clock(), self._reserved(account.name)
        standing = self._standings.get(account.name, Standing())
        if rules.is_set_back(standing, now):
            standing = self._standings[account.name] = rules.current(standing, now)
        decided = decide(admission_id, account, estimate, more, standing, reserved, now)
        if isinstance(decided, Refusal):
            return decided
        self._standings[account.name] = decided.standing
        for each in self._reservations.values():
            each.spent |= each.name == account.name and not each.holds(now)
        end = now + RESERVED_SECONDS
        for number in range(decided.slots):
            held = _Reservation(account.name, estimate.micros, end)
            self._reservations[decided.slot(number).id] = held
        return decided

    async def renew(self, admission_ids: Sequence[str]) -> None:
        for each in admission_ids:
            known = self._reservations.get(each)
            if known is not None and known.holds(self._clock()):
                known.expires = self._clock() + RESERVED_SECONDS

    async def settle(self, ended: Sequence[Settlement]) -> None:
        for each in ended:
            account = each.admission.account
            if (reservation := self._reservations.pop(each.admission.id, None)) is None:
                continue
            self._standings[account.name] = rules.settle(
                account.allowance,
                self._standings.get(account.name, Standing()),
                each.admission.estimate,
                each.used,
                self._clock(),
                spent_already=reservation.spent,
            )
            for row in each.rows:
                add_usage(self._usage, row)

    async def record(self, rows: Sequence[UsageRow]) -> None:
        for row in rows:
            add_usage(self._usage, row)

    async def usage(self, first_day: str, last_day: str) -> Sequence[UsageRow]:
        return [row for place, row in sorted(self._usage.items()) if first_day <= place[0] <= last_day]

    async def check(self) -> None:
        """It is always there."""

    async def close(self) -> None: ...

    def _reserved(self, name: str) -> Reserved:
        now = self._clock()
        own = [each for each in self._reservations.values() if each.name == name]
        held = [each.micros for each in own if each.holds(now)]
        expired = sum(each.micros for each in own if not each.holds(now) and not each.spent)
        return Reserved(len(held), sum(held), expired)

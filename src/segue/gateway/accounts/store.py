"""Where accounts are kept: their keys' digests, what they have used, what their running requests have reserved.

Several gateways may share one store; each change is whole, and all of them count together.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Protocol, final

from msgspec import Struct, structs

from segue.errors import UsageError
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import Charge, Refusal, Reserved, Standing, admit, admit_more

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.usage import Usage

RESERVED_SECONDS = 60.0
"""How long a reservation holds without being renewed. What a gateway that died had reserved counts as spent from then on."""
LONGEST_HOLD = 2 * RESERVED_SECONDS
"""One that would hold for longer was made by a clock that has been set back since: it holds no more either."""


@final
class Admission(Struct, frozen=True, kw_only=True):
    """A request that may be sent; to be settled when it has ended."""

    id: str
    account: Account
    estimate: Charge
    standing: Standing = Standing()
    reserved: Reserved = Reserved()
    """Of the account's other requests."""
    slots: int = 1
    """More than one: a block of requests, each with a reservation of its own."""

    def slot(self, number: int) -> Admission:
        """One request of a block; the first has the block's own id."""
        return structs.replace(self, id=f"{self.id}.{number}" if number else self.id, slots=1)


def decide(
    admission_id: str,
    account: Account,
    estimate: Charge,
    more: int,
    standing: Standing,
    reserved: Reserved,
    now: float,
) -> Admission | Refusal:
    """By the rules: for stores that know them in Python."""
    decided = admit(account.allowance, standing, reserved, estimate, now)
    if isinstance(decided, Refusal):
        return decided
    decided, more = admit_more(account.allowance, decided, reserved, estimate, now, more)
    return Admission(
        id=admission_id,
        account=account,
        estimate=estimate,
        standing=decided,
        reserved=reserved,
        slots=1 + more,
    )


@final
class UsageRow(Struct, frozen=True):
    """What one caller used of one route in one day, under the name that it asked for."""

    day: str
    caller: str
    asked: str
    route: str
    requests: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    micros: int = 0
    """Millionths of a dollar, as far as prices are known."""
    unpriced: int = 0
    """Requests to models whose price is not known."""
    repairs: int = 0
    losses: int = 0
    failovers: int = 0
    lost_tokens: int = 0
    """That should have been read from a provider's cache, and were paid again."""
    lost_micros: int = 0
    """What these cost more than from the cache, in millionths of a dollar."""

    @classmethod
    def of(
        cls,
        place: tuple[str, str, str, str],
        usage: Usage,
        *,
        micros: int,
        unpriced: int,
        requests: int = 0,
        repairs: int = 0,
    ) -> UsageRow:
        """What one request used, at a place. `requests` is 0 where the request is counted elsewhere."""
        return cls(
            *place,
            requests=requests,
            input_tokens=usage.input_tokens or 0,
            output_tokens=usage.output_tokens or 0,
            cached_tokens=usage.cached_tokens or 0,
            reasoning_tokens=usage.reasoning_tokens or 0,
            micros=micros,
            unpriced=unpriced,
            repairs=repairs,
        )

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What tells rows apart."""
        return self.day, self.caller, self.asked, self.route

    def plus(self, other: UsageRow) -> UsageRow:
        """Both together, at the place of this one."""
        sums = map(add, structs.astuple(self)[len(PLACE) :], structs.astuple(other)[len(PLACE) :])
        return UsageRow(*self.place, *sums)


@final
class Settlement(Struct, frozen=True):
    """A request that has ended, and what it came to."""

    admission: Admission
    used: Charge
    rows: tuple[UsageRow, ...] = ()
    """Added to the usage with it."""


PLACE = ("day", "caller", "asked", "route")
"""The fields that tell rows apart; all others are sums."""
SUMS = tuple(name for name in UsageRow.__struct_fields__ if name not in PLACE)


def add_usage(rows: dict[tuple[str, str, str, str], UsageRow], row: UsageRow) -> None:
    """To the row at the same place, if there is one."""
    place = row.place
    known = rows.get(place)
    rows[place] = row if known is None else known.plus(row)


NAMES_PER_DAY = 1000
"""Of one caller; beyond it names that clients ask for are counted together, so that a store stays small."""
OTHER = "(other)"


class AccountStore(Protocol):
    """What a store must do. It drops usage that is too old by itself."""

    async def revision(self) -> int:
        """Grows with every change of an account."""

    async def accounts(self) -> Sequence[Account]: ...

    async def save(self, account: Account, *, new: bool) -> None:
        """Keep an account; when this returns, it is on the disk. Raises UsageError if a new one's name is taken, or one
        that is not new is unknown."""

    async def remove(self, name: str) -> None:
        """Forget an account; when this returns, it is gone from the disk. What it has used stays, under its name. Raises
        UsageError if it is unknown."""

    async def standing(self, name: str) -> tuple[Standing, Reserved]: ...

    async def admit(
        self, admission_id: str, account: Account, estimate: Charge, *, more: int = 0
    ) -> Admission | Refusal:
        """Reserve what a request may come to, if it may be sent; and as much for each of so many `more`, as far as they are a
        small part of what the account may use."""

    async def renew(self, admission_ids: Sequence[str]) -> None:
        """These requests still run."""

    async def settle(self, ended: Sequence[Settlement]) -> None:
        """Requests have ended: what they came to counts, their reservations end, and their rows are added to the usage, all
        or none of it. A second time nothing happens."""

    async def record(self, rows: Sequence[UsageRow]) -> None:
        """Add to the usage."""

    async def usage(self, first_day: str, last_day: str) -> Sequence[UsageRow]:
        """By day, caller, name and route; both days are included."""

    async def check(self) -> None:
        """Raises JournalError if it cannot be read and written now."""

    async def close(self) -> None: ...


def check_name(name: str, *, known: bool, new: bool) -> None:
    """Raises UsageError if a new account's name is taken, or one that is not new is unknown."""
    if known == new:
        raise UsageError(
            f'There is {"already a" if new else "no"} caller "{name}".',
            code="caller_exists" if new else "unknown_caller",
            hint="Choose another name, or rotate its key. The name of one that was revoked is not used again before it is removed."
            if new
            else "List them: segue gateway keys list",
        )

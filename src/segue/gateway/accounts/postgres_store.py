"""Accounts in PostgreSQL, for gateways on any number of machines. All of them go by the database's clock.

A request is admitted, and requests are settled together, by one call of a function in the database, which locks the account's
row: no two gateways spend the same money. Counting does not wait for the database's disk, keys do.
"""

from __future__ import annotations

import time
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from segue.databases.postgres.connection import read_number
from segue.databases.postgres.database import Database
from segue.databases.postgres.migrations import read_steps
from segue.gateway.accounts import budget_rules as rules
from segue.gateway.accounts import rate_limit
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import Limit, Reserved, Standing
from segue.gateway.accounts.store import (
    LONGEST_HOLD,
    NAMES_PER_DAY,
    OTHER,
    RESERVED_SECONDS,
    Admission,
    Settlement,
    UsageRow,
    check_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.databases.postgres.connection import DatabaseConnection
    from segue.gateway.accounts.budget_rules import Charge, Refusal

PART: Final = "gateway accounts"
PATIENCE: Final = 1.0
"""Seconds that a request waits for a database that does not answer."""
_EXPIRY_SECONDS: Final = 3600.0
_STANDING: Final = f"SELECT {', '.join(Standing.__struct_fields__)} FROM {{schema}}.standings WHERE name = %s"  # noqa: S608
_RESERVED: Final = """SELECT count(*) FILTER (WHERE holds)::int8,
    coalesce(sum(micros) FILTER (WHERE holds), 0)::int8,
    coalesce(sum(micros) FILTER (WHERE NOT holds AND NOT spent), 0)::int8
    FROM (SELECT *, expires > %s AND expires <= %s AS holds FROM {schema}.reservations WHERE name = %s) AS own"""


class _Decision(Struct, frozen=True):
    now: float
    standing: Standing
    reserved: Reserved
    refused: Limit | None
    wait: float
    more: int


_DECISION: Final = msgspec.json.Decoder(_Decision)


class PostgresAccountStore:
    """Keeps accounts in a schema of a database."""

    def __init__(
        self,
        url: str,
        *,
        keep_days: int = 400,
        patience: float = PATIENCE,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._keep_days = keep_days
        self._clock = clock
        steps = read_steps(Path(__file__).parent / "postgres_migrations")
        self._database = Database(url, part=PART, steps=steps, patience=patience, rest=patience, in_loop=True)
        self._expire_at = 0.0

    def __repr__(self) -> str:
        return f"PostgresAccountStore({self._database.address.shown!r})"

    async def revision(self) -> int:
        ((number,),) = await self._database.call("revision_of_accounts")
        return read_number(number) or 0

    async def accounts(self) -> Sequence[Account]:
        rows = await self._database.run(
            lambda connection: connection.fetch("SELECT account FROM {schema}.accounts ORDER BY name")
        )
        return [msgspec.json.decode(row[0], type=Account) for row in rows]

    async def save(self, account: Account, *, new: bool) -> None:
        await self._database.run(lambda connection: self._save(connection, account, new=new))

    async def remove(self, name: str) -> None:
        await self._database.run(lambda connection: self._remove(connection, name))

    async def standing(self, name: str) -> tuple[Standing, Reserved]:
        return await self._database.run(lambda connection: self._standing(connection, name))

    async def admit(
        self, admission_id: str, account: Account, estimate: Charge, *, more: int = 0
    ) -> Admission | Refusal:
        limits = account.allowance
        values = (
            account.name,
            admission_id,
            estimate.tokens,
            estimate.micros,
            RESERVED_SECONDS,
            self._time(),
            limits.concurrent,
            rules.micros_of(limits.dollars_per_day),
            rules.micros_of(limits.dollars_per_month),
            limits.requests_per_minute,
            limits.tokens_per_minute,
            more,
            rules.BLOCK_SHARE,
        )
        ((text,),) = await self._database.call("admit", *values)
        decided = _DECISION.decode(text or b"")
        if decided.refused is not None:
            return rules.refusal(decided.refused, decided.wait, decided.now)
        return Admission(
            id=admission_id,
            account=account,
            estimate=estimate,
            standing=decided.standing,
            reserved=decided.reserved,
            slots=1 + decided.more,
        )

    async def renew(self, admission_ids: Sequence[str]) -> None:
        await self._database.run(lambda connection: self._renew(connection, list(admission_ids)))

    async def settle(self, ended: Sequence[Settlement]) -> None:
        values = (
            msgspec.json.encode([_settled(each) for each in ended]).decode(),
            NAMES_PER_DAY,
            OTHER,
            self._time(),
        )
        await self._database.call("settle", *values)

    async def record(self, rows: Sequence[UsageRow]) -> None:
        batch = token_hex(12)
        await self._database.run(lambda connection: self._record(connection, batch, rows))

    async def usage(self, first_day: str, last_day: str) -> Sequence[UsageRow]:
        fields = UsageRow.__struct_fields__
        rows = await self._database.run(
            lambda connection: connection.fetch(
                f"SELECT {', '.join(fields)} FROM {{schema}}.usage WHERE day BETWEEN %s AND %s "  # noqa: S608
                "ORDER BY day, caller, asked, route",
                first_day,
                last_day,
            )
        )
        return [UsageRow(*row) for row in rows]

    async def check(self) -> None:
        await self._database.check()

    async def close(self) -> None:
        await self._database.close()

    # Everything below runs in a thread of the database.

    def _time(self) -> float | None:
        """None: the database's own clock."""
        return None if self._clock is None else self._clock()

    def _now(self, connection: DatabaseConnection) -> float:
        if self._clock is not None:
            return self._clock()
        ((now,),) = connection.fetch("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(now)

    def _standing(self, connection: DatabaseConnection, name: str) -> tuple[Standing, Reserved]:
        known = connection.fetch(_STANDING, name)
        now = self._now(connection)
        (reserved,) = connection.fetch(_RESERVED, now, now + LONGEST_HOLD, name)
        return Standing(*known[0]) if known else Standing(), Reserved(*reserved)

    def _save(self, connection: DatabaseConnection, account: Account, *, new: bool) -> None:
        text = msgspec.json.encode(account).decode()
        with connection.transaction():
            connection.fetch("SELECT number FROM {schema}.account_revision FOR UPDATE")
            known = connection.fetch("SELECT account FROM {schema}.accounts WHERE name = %s", account.name)
            if connection.retried and known == [(text,)]:
                return
            check_name(account.name, known=bool(known), new=new)
            connection.execute(
                "INSERT INTO {schema}.accounts VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET account = excluded.account",
                account.name,
                text,
            )
            connection.execute("UPDATE {schema}.account_revision SET number = number + 1")

    def _remove(self, connection: DatabaseConnection, name: str) -> None:
        with connection.transaction():
            connection.fetch("SELECT number FROM {schema}.account_revision FOR UPDATE")
            removed = connection.execute("DELETE FROM {schema}.accounts WHERE name = %s", name)
            if connection.retried and not removed:
                return
            check_name(name, known=removed > 0, new=False)
            connection.execute("UPDATE {schema}.account_revision SET number = number + 1")

    def _renew(self, connection: DatabaseConnection, admission_ids: list[str]) -> None:
        now = self._now(connection)
        connection.execute(
            # One that somebody else has locked is about to end.
            "UPDATE {schema}.reservations SET expires = %s WHERE id IN (SELECT id FROM {schema}.reservations "
            "WHERE id = ANY (%s) AND expires > %s AND expires <= %s FOR UPDATE SKIP LOCKED)",
            *(now + RESERVED_SECONDS, admission_ids, now, now + LONGEST_HOLD),
        )

    def _record(self, connection: DatabaseConnection, batch: str, rows: Sequence[UsageRow]) -> None:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = off")
            now = self._now(connection)
            if not connection.execute(
                "INSERT INTO {schema}.usage_batches VALUES (%s, %s) ON CONFLICT DO NOTHING", batch, now
            ):
                return
            # In one order on all nodes, so that none waits for another in a circle.
            for row in sorted(rows, key=lambda row: row.place):
                connection.call("add_usage", msgspec.json.encode(row).decode(), NAMES_PER_DAY, OTHER)
            if now >= self._expire_at:
                self._drop_old(connection, now)

    def _drop_old(self, connection: DatabaseConnection, now: float) -> None:
        self._expire_at = now + _EXPIRY_SECONDS
        oldest = time.strftime("%Y-%m-%d", time.gmtime(now - self._keep_days * 86_400))
        connection.execute("DELETE FROM {schema}.usage WHERE day < %s", oldest)
        connection.execute("DELETE FROM {schema}.usage_batches WHERE taken < %s", now - _EXPIRY_SECONDS)
        connection.execute(
            "DELETE FROM {schema}.reservations WHERE spent AND expires < %s", now - _EXPIRY_SECONDS
        )


def _settled(ended: Settlement) -> dict[str, object]:
    admission, limits = ended.admission, ended.admission.account.allowance
    per_minute = limits.tokens_per_minute
    too_many = admission.estimate.tokens - ended.used.tokens
    return {
        "id": admission.id,
        "name": admission.account.name,
        "micros": ended.used.micros,
        "reserved": admission.estimate.micros,
        "given_back": 0.0 if per_minute is None else too_many * rate_limit.MINUTE / per_minute,
        "usage": ended.rows,
    }

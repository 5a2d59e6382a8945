"""Accounts in PostgreSQL, for gateways on any number of machines. All of them go by the database's clock.

An account's row is locked while a request of it is admitted or settled, so that no two gateways spend the same money.
Counting does not wait for the database's disk, keys do.
"""

from __future__ import annotations

import time
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import structs

from segue.gateway.accounts import admission as rules
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.admission import Refusal, Reserved, Standing
from segue.gateway.accounts.store import (
    NAMES_PER_DAY,
    OTHER,
    PLACE,
    RESERVED_SECONDS,
    SUMS,
    Admission,
    UsageRow,
    check_name,
)
from segue.postgres.database import Database
from segue.postgres.migrations import read_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.gateway.accounts.admission import Charge
    from segue.postgres.connection import DatabaseConnection

PART: Final = "gateway accounts"
PATIENCE: Final = 1.0
"""Seconds that a request waits for a database that was there a moment ago."""
_EXPIRY_SECONDS: Final = 3600.0
_STANDING: Final = f"SELECT {', '.join(Standing.__struct_fields__)} FROM {{schema}}.standings WHERE name = %s"  # noqa: S608
_ADD_USAGE: Final = (
    f"INSERT INTO {{schema}}.usage AS known VALUES ({', '.join(['%s'] * (len(PLACE) + len(SUMS)))}) "  # noqa: S608
    f"ON CONFLICT ({', '.join(PLACE)}) DO UPDATE SET "
    + ", ".join(f"{name} = known.{name} + excluded.{name}" for name in SUMS)
)


class PostgresAccountStore:
    """Keeps accounts in a schema of a database."""

    def __init__(self, url: str, *, keep_days: int = 400, clock: Callable[[], float] | None = None) -> None:
        self._keep_days = keep_days
        self._clock = clock
        steps = read_steps(Path(__file__).parent / "postgres_migrations")
        self._database = Database(url, part=PART, steps=steps, patience=PATIENCE, rest=PATIENCE)
        self._expire_at = 0.0

    def __repr__(self) -> str:
        return f"PostgresAccountStore({self._database.address.shown!r})"

    async def revision(self) -> int:
        ((number,),) = await self._database.run(
            lambda connection: connection.fetch("SELECT number FROM {schema}.account_revision")
        )
        return int(number)

    async def accounts(self) -> Sequence[Account]:
        rows = await self._database.run(
            lambda connection: connection.fetch("SELECT account FROM {schema}.accounts ORDER BY name")
        )
        return [msgspec.json.decode(row[0], type=Account) for row in rows]

    async def save(self, account: Account, *, new: bool) -> None:
        await self._database.run(lambda connection: self._save(connection, account, new=new))

    async def standing(self, name: str) -> tuple[Standing, Reserved]:
        return await self._database.run(
            lambda connection: (
                _standing(connection.fetch(_STANDING, name)),
                _reserved(connection, name, self._now(connection)),
            )
        )

    async def admit(self, admission_id: str, account: Account, estimate: Charge) -> Admission | Refusal:
        return await self._database.run(
            lambda connection: self._admit(connection, admission_id, account, estimate)
        )

    async def renew(self, admission_ids: Sequence[str]) -> None:
        await self._database.run(
            lambda connection: connection.execute(
                "UPDATE {schema}.reservations SET expires = %s WHERE id = ANY (%s)",
                self._now(connection) + RESERVED_SECONDS,
                list(admission_ids),
            )
        )

    async def settle(self, admission: Admission, used: Charge) -> None:
        await self._database.run(lambda connection: self._settle(connection, admission, used))

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
        return [UsageRow(**dict(zip(fields, row, strict=True))) for row in rows]

    async def close(self) -> None:
        await self._database.close()

    # Everything below runs in a thread of the database.

    def _now(self, connection: DatabaseConnection) -> float:
        if self._clock is not None:
            return self._clock()
        ((now,),) = connection.fetch("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(now)

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

    def _admit(
        self, connection: DatabaseConnection, admission_id: str, account: Account, estimate: Charge
    ) -> Admission | Refusal:
        with connection.transaction():
            standing = _locked_standing(connection, account.name)
            now = self._now(connection)
            reserved = _reserved(connection, account.name, now, but=admission_id)
            decided = rules.admit(account.allowance, standing, reserved, estimate, now)
            if connection.retried and _is_reserved(connection, admission_id):
                decided = standing  # it was admitted before the connection was lost
            elif isinstance(decided, Refusal):
                return decided
            else:
                _keep(connection, account.name, decided)
                if reserved.expired:
                    connection.execute(
                        "UPDATE {schema}.reservations SET spent = true WHERE name = %s AND expires <= %s",
                        account.name,
                        now,
                    )
                connection.execute(
                    "INSERT INTO {schema}.reservations (id, name, micros, expires) VALUES (%s, %s, %s, %s)",
                    admission_id,
                    account.name,
                    estimate.micros,
                    now + RESERVED_SECONDS,
                )
        return Admission(
            id=admission_id, account=account, estimate=estimate, standing=decided, reserved=reserved
        )

    def _settle(self, connection: DatabaseConnection, admission: Admission, used: Charge) -> None:
        account = admission.account
        with connection.transaction():
            standing = _locked_standing(connection, account.name)
            ended = connection.fetch(
                "DELETE FROM {schema}.reservations WHERE id = %s RETURNING spent", admission.id
            )
            if not ended:
                return
            settled = rules.settle(
                account.allowance,
                standing,
                admission.estimate,
                used,
                self._now(connection),
                spent_already=bool(ended[0][0]),
            )
            _keep(connection, account.name, settled)

    def _record(self, connection: DatabaseConnection, batch: str, rows: Sequence[UsageRow]) -> None:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = off")
            now = self._now(connection)
            if not connection.execute(
                "INSERT INTO {schema}.usage_batches VALUES (%s, %s) ON CONFLICT DO NOTHING", batch, now
            ):
                return
            # In one order on all nodes, so that none waits for another in a circle.
            for row in sorted(rows, key=lambda row: (row.day, row.caller, row.asked, row.route)):
                ((names,),) = connection.fetch(
                    "SELECT count(*)::int8 FROM {schema}.usage WHERE day = %s AND caller = %s",
                    row.day,
                    row.caller,
                )
                kept = row if names < NAMES_PER_DAY else structs.replace(row, asked=OTHER)
                connection.execute(_ADD_USAGE, *structs.astuple(kept))
            self._drop_old(connection, now)

    def _drop_old(self, connection: DatabaseConnection, now: float) -> None:
        if now < self._expire_at:
            return
        self._expire_at = now + _EXPIRY_SECONDS
        oldest = time.strftime("%Y-%m-%d", time.gmtime(now - self._keep_days * 86_400))
        connection.execute("DELETE FROM {schema}.usage WHERE day < %s", oldest)
        connection.execute("DELETE FROM {schema}.usage_batches WHERE taken < %s", now - _EXPIRY_SECONDS)
        connection.execute(
            "DELETE FROM {schema}.reservations WHERE spent AND expires < %s", now - _EXPIRY_SECONDS
        )


def _locked_standing(connection: DatabaseConnection, name: str) -> Standing:
    connection.execute("SET LOCAL synchronous_commit = off")
    rows = connection.fetch(f"{_STANDING} FOR UPDATE", name)
    if not rows:
        connection.execute("INSERT INTO {schema}.standings (name) VALUES (%s) ON CONFLICT DO NOTHING", name)
        rows = connection.fetch(f"{_STANDING} FOR UPDATE", name)
    return _standing(rows)


def _standing(rows: Sequence[tuple[object, ...]]) -> Standing:
    return (
        msgspec.convert(dict(zip(Standing.__struct_fields__, rows[0], strict=True)), Standing)
        if rows
        else Standing()
    )


def _keep(connection: DatabaseConnection, name: str, standing: Standing) -> None:
    changes = ", ".join(f"{field} = %s" for field in Standing.__struct_fields__)
    connection.execute(
        f"UPDATE {{schema}}.standings SET {changes} WHERE name = %s",  # noqa: S608
        *structs.astuple(standing),
        name,
    )


def _reserved(connection: DatabaseConnection, name: str, now: float, but: str = "") -> Reserved:
    (found,) = connection.fetch(
        "SELECT count(*) FILTER (WHERE expires > %s)::int8, "
        "coalesce(sum(micros) FILTER (WHERE expires > %s), 0)::int8, "
        "coalesce(sum(micros) FILTER (WHERE expires <= %s AND NOT spent), 0)::int8 "
        "FROM {schema}.reservations WHERE name = %s AND id <> %s",
        now,
        now,
        now,
        name,
        but,
    )
    return Reserved(*map(int, found))


def _is_reserved(connection: DatabaseConnection, admission_id: str) -> bool:
    return bool(connection.fetch("SELECT 1 FROM {schema}.reservations WHERE id = %s", admission_id))

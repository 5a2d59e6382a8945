"""Accounts in one SQLite file, shared by any number of gateways on one machine.

Counting a request takes some ten microseconds, in the loop if nobody else is writing. It waits for the operating system, not
for the disk, except where a key changes: a killed process loses nothing, and a power cut at most what was used in the last
moments.
"""

from __future__ import annotations

import time
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import msgspec

from segue.databases.shared_sqlite_file import PATIENCE, SharedFile, VolatileFile
from segue.gateway.accounts import budget_rules as rules
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import Refusal, Reserved, Standing
from segue.gateway.accounts.store import (
    LONGEST_HOLD,
    NAMES_PER_DAY,
    OTHER,
    PLACE,
    RESERVED_SECONDS,
    SUMS,
    Admission,
    Settlement,
    UsageRow,
    add_usage,
    check_name,
    decide,
)

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Callable, Sequence

    from segue.gateway.accounts.budget_rules import Charge

VERSION: Final = 4
_EXPIRY_SECONDS: Final = 3600.0
_FEW: Final = 16
"""Requests that are settled in the loop together; more take long enough for the thread."""

_SCHEMA: Final = (
    "CREATE TABLE revision (number INTEGER NOT NULL)",
    "INSERT INTO revision VALUES (0)",
    "CREATE TABLE accounts (name TEXT PRIMARY KEY, account TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE standings (
        name TEXT PRIMARY KEY, requests_due REAL NOT NULL, tokens_due REAL NOT NULL, day TEXT NOT NULL,
        day_spent INTEGER NOT NULL, month TEXT NOT NULL, month_spent INTEGER NOT NULL, seen REAL NOT NULL DEFAULT 0,
        set_back_from TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID""",
    """CREATE TABLE reservations (
        name TEXT NOT NULL, id TEXT NOT NULL, micros INTEGER NOT NULL, expires REAL NOT NULL,
        spent INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (name, id)
    ) WITHOUT ROWID""",
    f"""CREATE TABLE usage (
        day TEXT, caller TEXT, asked TEXT, route TEXT, {", ".join(f"{name} INTEGER NOT NULL" for name in SUMS)},
        PRIMARY KEY ({", ".join(PLACE)})
    ) WITHOUT ROWID""",
)
_UPGRADES: Final = {
    1: ("ALTER TABLE standings ADD COLUMN seen REAL NOT NULL DEFAULT 0",),
    2: ("ALTER TABLE standings ADD COLUMN set_back_from TEXT NOT NULL DEFAULT ''",),
    3: (
        "ALTER TABLE usage ADD COLUMN lost_tokens INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE usage ADD COLUMN lost_micros INTEGER NOT NULL DEFAULT 0",
    ),
}
_STANDING: Final = ", ".join(Standing.__struct_fields__)
_KEEP: Final = f"""INSERT OR REPLACE INTO standings (name, {_STANDING})
    VALUES (?{", ?" * len(Standing.__struct_fields__)})"""  # noqa: S608
_HOLDS: Final = f"(expires > ?1 AND expires <= ?1 + {LONGEST_HOLD})"
_BOTH: Final = f"""SELECT coalesce(sum({_HOLDS}), 0), coalesce(sum(CASE WHEN {_HOLDS} THEN micros END), 0),
    coalesce(sum(CASE WHEN NOT {_HOLDS} AND NOT spent THEN micros END), 0), {_STANDING}
    FROM (SELECT ?2 AS wanted) LEFT JOIN standings ON standings.name = wanted
    LEFT JOIN reservations ON reservations.name = wanted"""  # noqa: S608
_ADD_TO_USAGE: Final = f"""UPDATE usage SET {", ".join(f"{name} = {name} + ?" for name in SUMS)}
    WHERE {" AND ".join(f"{name} = ?" for name in PLACE)}"""  # noqa: S608
_INSERT_USAGE: Final = f"""INSERT INTO usage VALUES ({", ".join("?" * (len(PLACE) + len(SUMS)))})
    ON CONFLICT DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)}"""  # noqa: S608


class SQLiteAccountStore:
    """Keeps accounts in a file, which only its owner may read."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        keep_days: int = 400,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`path`: None for what ends with the process."""
        self.is_volatile = path is None
        opened = VolatileFile if path is None else SharedFile
        self._file = opened(
            path or "",
            "The file of the gateway's accounts",
            _SCHEMA,
            VERSION,
            page_size=1024,
            upgrades=_UPGRADES,
            patience=patience,
        )
        self._keep_days = keep_days
        self._clock = clock
        self._expire_at = 0.0

    async def revision(self) -> int:
        return await self._file.read(
            lambda connection: int(connection.execute("SELECT number FROM revision").fetchone()[0])
        )

    async def accounts(self) -> Sequence[Account]:
        rows = await self._file.read(
            lambda connection: connection.execute("SELECT account FROM accounts ORDER BY name").fetchall()
        )
        return [msgspec.json.decode(row[0], type=Account) for row in rows]

    async def save(self, account: Account, *, new: bool) -> None:
        await self._file.run(self._save, account, new=new)

    async def remove(self, name: str) -> None:
        await self._file.run(self._remove, name)

    async def standing(self, name: str) -> tuple[Standing, Reserved]:
        return await self._file.read(
            lambda connection: _standing_and_reserved(connection, name, self._clock())
        )

    async def admit(
        self, admission_id: str, account: Account, estimate: Charge, *, more: int = 0
    ) -> Admission | Refusal:
        return await self._file.write_small(partial(self._admit, admission_id, account, estimate, more))

    async def renew(self, admission_ids: Sequence[str]) -> None:
        await self._file.write(partial(self._renew, admission_ids))

    async def settle(self, ended: Sequence[Settlement]) -> None:
        settle = partial(self._settle, ended)
        if len(ended) <= _FEW:
            await self._file.write_small(settle)
        else:
            await self._file.write(settle)

    async def record(self, rows: Sequence[UsageRow]) -> None:
        await self._file.write(partial(self._record, rows))

    async def usage(self, first_day: str, last_day: str) -> Sequence[UsageRow]:
        rows = await self._file.read(
            lambda connection: connection.execute(
                "SELECT * FROM usage WHERE day BETWEEN ? AND ? ORDER BY day, caller, asked, route",
                (first_day, last_day),
            ).fetchall()
        )
        return [UsageRow(*row) for row in rows]

    async def check(self) -> None:
        await self._file.check()

    async def close(self) -> None:
        await self._file.close()

    def _save(self, account: Account, *, new: bool) -> None:
        with self._file.writing() as connection:
            known = connection.execute("SELECT 1 FROM accounts WHERE name = ?", (account.name,)).fetchone()
            check_name(account.name, known=known is not None, new=new)
            connection.execute(
                "INSERT OR REPLACE INTO accounts VALUES (?, ?)",
                (account.name, msgspec.json.encode(account).decode()),
            )
            connection.execute("UPDATE revision SET number = number + 1")
        # A key that was made or revoked stays so, whatever happens to the machine.
        self._file.writer.execute("PRAGMA wal_checkpoint(FULL)")

    def _remove(self, name: str) -> None:
        with self._file.writing() as connection:
            removed = connection.execute("DELETE FROM accounts WHERE name = ?", (name,)).rowcount
            check_name(name, known=removed > 0, new=False)
            connection.execute("UPDATE revision SET number = number + 1")
        self._file.writer.execute("PRAGMA wal_checkpoint(FULL)")

    def _admit(
        self, admission_id: str, account: Account, estimate: Charge, more: int, connection: sqlite3.Connection
    ) -> Admission | Refusal:
        now = self._clock()
        standing, reserved = _standing_and_reserved(connection, account.name, now)
        if rules.is_set_back(standing, now):
            standing = rules.current(standing, now)
            _keep(connection, account.name, standing)
        decided = decide(admission_id, account, estimate, more, standing, reserved, now)
        if isinstance(decided, Refusal):
            return decided
        _keep(connection, account.name, decided.standing)
        if reserved.expired:
            connection.execute(
                f"UPDATE reservations SET spent = 1 WHERE name = ?2 AND NOT {_HOLDS}",  # noqa: S608
                (now, account.name),
            )
        connection.executemany(
            "INSERT INTO reservations (id, name, micros, expires) VALUES (?, ?, ?, ?)",
            [
                (decided.slot(number).id, account.name, estimate.micros, now + RESERVED_SECONDS)
                for number in range(decided.slots)
            ],
        )
        return decided

    def _renew(self, admission_ids: Sequence[str], connection: sqlite3.Connection) -> None:
        now = self._clock()
        connection.execute(
            f"UPDATE reservations SET expires = ?2 WHERE {_HOLDS} AND id IN (SELECT value FROM json_each(?3))",  # noqa: S608
            (now, now + RESERVED_SECONDS, msgspec.json.encode(admission_ids).decode()),
        )

    def _settle(self, ended: Sequence[Settlement], connection: sqlite3.Connection) -> None:
        now = self._clock()
        rows: dict[tuple[str, str, str, str], UsageRow] = {}
        for name, settlements in _by_account(ended).items():
            # By one statement for all: in the thread, each one waits for its turn among the requests.
            ids = [each.admission.id for each in settlements]
            found = connection.execute(_end_reservations(len(ids)), (name, *ids)).fetchall()
            if not found:
                continue
            spent, standing = dict(found), _standing(connection, name)
            for each in settlements:
                already = spent.pop(each.admission.id, None)
                if already is None:
                    continue
                standing = rules.settle(
                    each.admission.account.allowance,
                    standing,
                    each.admission.estimate,
                    each.used,
                    now,
                    spent_already=bool(already),
                )
                for row in each.rows:
                    add_usage(rows, row)
            _keep(connection, name, standing)
        for row in rows.values():
            _add_row(connection, row)

    def _record(self, rows: Sequence[UsageRow], connection: sqlite3.Connection) -> None:
        for row in rows:
            _add_row(connection, row)
        now = self._clock()
        if now < self._expire_at:
            return
        self._expire_at = now + _EXPIRY_SECONDS
        oldest = time.strftime("%Y-%m-%d", time.gmtime(now - self._keep_days * 86_400))
        connection.execute("DELETE FROM usage WHERE day < ?", (oldest,))
        connection.execute("DELETE FROM reservations WHERE spent AND expires < ?", (now - _EXPIRY_SECONDS,))


@lru_cache
def _end_reservations(count: int) -> str:
    marks = ", ".join("?" * count)
    return f"DELETE FROM reservations WHERE name = ? AND id IN ({marks}) RETURNING id, spent"  # noqa: S608


def _by_account(ended: Sequence[Settlement]) -> dict[str, list[Settlement]]:
    accounts: dict[str, list[Settlement]] = {}
    for each in ended:
        accounts.setdefault(each.admission.account.name, []).append(each)
    return accounts


def _add_row(connection: sqlite3.Connection, row: UsageRow) -> None:
    """To its place if it is known, or one of at most so many of a caller's day."""
    if connection.execute(_ADD_TO_USAGE, (*(getattr(row, name) for name in SUMS), *row.place)).rowcount:
        return
    names = connection.execute(
        "SELECT count(*) FROM usage WHERE day = ? AND caller = ?", (row.day, row.caller)
    ).fetchone()[0]
    kept = row if names < NAMES_PER_DAY else msgspec.structs.replace(row, asked=OTHER)
    connection.execute(_INSERT_USAGE, msgspec.structs.astuple(kept))


def _standing(connection: sqlite3.Connection, name: str) -> Standing:
    row = connection.execute(f"SELECT {_STANDING} FROM standings WHERE name = ?", (name,)).fetchone()  # noqa: S608
    return Standing() if row is None else Standing(*row)


def _keep(connection: sqlite3.Connection, name: str, standing: Standing) -> None:
    connection.execute(_KEEP, (name, *msgspec.structs.astuple(standing)))


def _standing_and_reserved(
    connection: sqlite3.Connection, name: str, now: float
) -> tuple[Standing, Reserved]:
    """Both by one statement: each costs as much as what it reads."""
    running, micros, expired, *standing = connection.execute(_BOTH, (now, name)).fetchone()
    found = Standing() if standing[0] is None else Standing(*standing)
    return found, Reserved(running, micros, expired)

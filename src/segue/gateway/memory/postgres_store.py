"""The gateway's memory in PostgreSQL, shared by gateways on any number of machines.

A write is one round trip and does not wait for the database's disk: a killed gateway loses nothing, a killed database at most
the last moments. What is too old goes by whole partitions.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from segue.conversation.json_safe import storable
from segue.errors import StoreRefusedError
from segue.gateway.memory.store import ConversationInfo, MemoryRecord
from segue.postgres.connection import bytes_array, number_array, read_number
from segue.postgres.database import Database
from segue.postgres.migrations import read_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.postgres.connection import DatabaseConnection

PART: Final = "gateway memory"
PATIENCE: Final = 1.0
"""Seconds that a request waits for a database that was there a moment ago; without it a reply costs seals, and no more."""
_MICROSECONDS: Final = 1_000_000
_TOUCH_SECONDS: Final = 3600
"""How exact the time of last use is: one write an hour for a record that is read all the time."""
_EXPIRY_SECONDS: Final = 600.0
_CHECK_SHARE: Final = 0.05
"""After so much of what may be kept was written here, all is counted."""
_NAMES: Final = (
    *("id", "caller", "client", "door", "asked", "route", "switched", "requests", "created", "updated"),
)
_CONVERSATION: Final = (
    f"SELECT {', '.join(_NAMES)} FROM {{schema}}.conversations "  # noqa: S608 - constants
    "WHERE updated > coalesce(%s::int8, {schema}.memory_clock()) - %s"
)


class PostgresMemoryStore:
    """Keeps the memory in a schema of a database. `key_check` is made of the installation's key: all nodes need the same."""

    def __init__(
        self,
        url: str,
        *,
        key_check: bytes = b"",
        max_bytes: int = 1 << 30,
        max_records: int = 500_000,
        keep_seconds: float = 30 * 86_400.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._key_check = key_check
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._keep = round(keep_seconds * _MICROSECONDS)
        self._clock = clock
        steps = read_steps(Path(__file__).parent / "postgres_migrations")
        self._database = Database(
            url, part=PART, steps=steps, patience=PATIENCE, on_open=self._compare_keys, rest=PATIENCE
        )
        self._expire_at = 0.0
        self._written_bytes = 0
        self._written_records = 0
        self._touched: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"PostgresMemoryStore({self._database.address.shown!r})"

    async def write(self, records: Sequence[MemoryRecord]) -> None:
        touched, self._touched = self._touched, {}
        await self._database.run(lambda connection: self._write(connection, records, touched))

    async def read(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        wanted, now = bytes_array(keys), self._now()
        rows = await self._database.run(
            lambda connection: connection.call("read_records", wanted, now, self._keep)
        )
        found: dict[bytes, bytes] = {}
        touch_before = (time.time() * _MICROSECONDS if now is None else now) - _TOUCH_SECONDS * _MICROSECONDS
        for key, body, number, period, used in rows:
            assert key is not None  # noqa: S101 - the columns of the function
            assert body is not None  # noqa: S101
            found[key] = body
            if (read_number(used) or 0) < touch_before:
                self._touched[read_number(number) or 0] = read_number(period) or 0
        return found

    async def delete(self, keys: Sequence[bytes]) -> None:
        unwanted = bytes_array(keys)
        await self._database.run(lambda connection: connection.call("delete_records", unwanted))

    async def note(self, seen: ConversationInfo) -> None:
        shown = (seen.id, seen.caller, seen.client, seen.door, seen.asked, seen.route)
        values = (*map(storable, shown), self._now())
        await self._database.run(lambda connection: connection.call("note_conversation", *values))

    async def conversation(self, conversation_id: str) -> ConversationInfo | None:
        rows = await self._database.run(
            lambda connection: connection.fetch(
                f"{_CONVERSATION} AND id = %s", self._now(), self._keep, storable(conversation_id)
            )
        )
        return _info(rows[0]) if rows else None

    async def conversations(self, limit: int = 50) -> Sequence[ConversationInfo]:
        rows = await self._database.run(
            lambda connection: connection.fetch(
                f"{_CONVERSATION} ORDER BY updated DESC, id LIMIT %s", self._now(), self._keep, limit
            )
        )
        return [_info(row) for row in rows]

    async def switch(self, conversation_id: str, model: str) -> bool:
        changed = await self._database.run(
            lambda connection: connection.execute(
                "UPDATE {schema}.conversations SET switched = %s WHERE id = %s",
                storable(model),
                storable(conversation_id),
            )
        )
        return changed > 0

    async def close(self) -> None:
        await self._database.close()

    def _now(self) -> int | None:
        """None: the database's own clock."""
        return None if self._clock is None else round(self._clock() * _MICROSECONDS)

    # Everything below runs in a thread of the database.

    def _write(
        self, connection: DatabaseConnection, records: Sequence[MemoryRecord], touched: Mapping[int, int]
    ) -> None:
        now = self._now()
        if touched:
            numbers, periods = number_array([*touched]), number_array([*touched.values()])
            connection.call("touch_records", numbers, periods, now)
        for (
            record
        ) in records:  # written twice after a lost connection, the second takes the first one's place
            connection.call("write_record", bytes_array(record.keys), record.body, now)
            self._written_bytes += len(record.body)
            self._written_records += 1
        self._drop_old(connection, now)
        self._drop_surplus(connection)

    def _drop_old(self, connection: DatabaseConnection, now: int | None) -> None:
        moment = time.monotonic() if now is None else now / _MICROSECONDS
        if moment >= self._expire_at:
            self._expire_at = moment + _EXPIRY_SECONDS
            connection.call("drop_old_records", now, self._keep)

    def _drop_surplus(self, connection: DatabaseConnection) -> None:
        if (
            self._written_bytes > self._max_bytes * _CHECK_SHARE
            or self._written_records > self._max_records * _CHECK_SHARE
        ):
            self._written_bytes = self._written_records = 0
            connection.call("drop_surplus_records", self._max_bytes, self._max_records)

    def _compare_keys(self, connection: DatabaseConnection) -> None:
        if not self._key_check:
            return
        connection.execute(
            "INSERT INTO {schema}.installation SELECT %s WHERE NOT EXISTS (SELECT 1 FROM {schema}.installation)",
            self._key_check,
        )
        if connection.fetch("SELECT key_check FROM {schema}.installation") != [(self._key_check,)]:
            raise StoreRefusedError(
                "The gateway's memory in this database was made with another installation's key.",
                code="other_key",
                path=self._database.address.shown,
                hint="Give all gateways the same key, in the variable that gateway.memory.key_env names, or name "
                "another ?schema= in store.",
            )


def _info(row: tuple[Any, ...]) -> ConversationInfo:
    fields = dict(zip(_NAMES, row, strict=True))
    times = {name: fields[name] / _MICROSECONDS for name in ("created", "updated")}
    return ConversationInfo(**(fields | times))

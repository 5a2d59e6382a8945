"""The gateway's memory in PostgreSQL, shared by gateways on any number of machines.

A reply and its conversation are written in one round trip that does not wait for the database's disk: a killed gateway loses
nothing, a killed database at most the last moments. What is too old goes by whole partitions.
"""

from __future__ import annotations

import asyncio
import time
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from segue.conversation.json_safe import storable
from segue.databases.postgres.connection import bytes_array, number_array, read_number
from segue.databases.postgres.database import Database
from segue.databases.postgres.migrations import read_steps
from segue.errors import StoreRefusedError
from segue.gateway.memory.store import ConversationInfo, MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.databases.postgres.connection import DatabaseConnection, PackedArray

PART: Final = "gateway memory"
PATIENCE: Final = 1.0
"""Seconds that a request waits for a database that does not answer; without it a reply costs seals, and no more."""
_MICROSECONDS: Final = 1_000_000
_TOUCH_SECONDS: Final = 3600
"""How exact the time of last use is: one write an hour for a record that is read all the time."""
_EXPIRY_SECONDS: Final = 600.0
_CHECK_SHARE: Final = 0.05
"""After so much of what may be kept was written here, all is counted."""
_NO_NOTE: Final = (None,) * 7
_CONVERSATIONS: Final = (
    f"SELECT {', '.join(ConversationInfo.__struct_fields__)} FROM {{schema}}.conversations "  # noqa: S608 - constants
    "WHERE updated > coalesce(%s::int8, {schema}.memory_clock()) - %s AND caller = coalesce(%s::text, caller) "
    "ORDER BY updated DESC, id LIMIT %s"
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
        patience: float = PATIENCE,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._key_check = key_check
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._keep = round(keep_seconds * _MICROSECONDS)
        self._clock = clock
        steps = read_steps(Path(__file__).parent / "postgres_migrations")
        self._database = Database(
            url,
            part=PART,
            steps=steps,
            patience=patience,
            on_open=self._compare_keys,
            rest=patience,
            in_loop=True,
        )
        self._expire_at = 0.0
        self._written_bytes = 0
        self._written_records = 0
        self._touched: dict[int, int] = {}
        self._records: list[MemoryRecord] = []
        self._notes: list[tuple[str, ...]] = []
        self._flush: asyncio.Task[None] | None = None
        self._flushes: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"PostgresMemoryStore({self._database.address.shown!r})"

    async def write(self, records: Sequence[MemoryRecord], seen: ConversationInfo | None = None) -> None:
        self._records += records
        if seen is not None:
            self._notes.append(_note_values(seen))
        # Those that come at the same time are written together.
        if self._flush is None or self._flush.done():
            self._flush = asyncio.ensure_future(self._write_all())
            self._flushes.add(self._flush)
            self._flush.add_done_callback(self._written)
        await asyncio.shield(self._flush)

    async def note_request(self, seen: ConversationInfo) -> None:
        await self._database.call("note_request", *_note_values(seen), self._now())

    async def note(self, seen: ConversationInfo) -> None:
        await self.write((), seen)

    def _written(self, flush: asyncio.Task[None]) -> None:
        self._flushes.discard(flush)
        if not flush.cancelled():
            flush.exception()  # whoever waited may have been cancelled

    async def _write_all(self) -> None:
        records, self._records = self._records, []
        notes, self._notes = self._notes, []
        touched, self._touched = self._touched, {}
        self._flush = None
        now = self._now()
        if touched:
            numbers, periods = number_array([*touched]), number_array([*touched.values()])
            await self._database.call("touch_records", numbers, periods, now)
        # One of each in a transaction, so that no two wait for each other. What is written twice after a lost connection takes
        # the first one's place.
        calls = [
            self._database.call("write_memory", *_record_values(record), *(note or _NO_NOTE), now)
            for record, note in zip_longest(records, notes)
        ]
        if len(calls) == 1:
            await calls[0]
        else:
            await asyncio.gather(*calls)
        self._written_bytes += sum(len(record.body) for record in records)
        self._written_records += len(records)
        await self._drop_old(now)
        await self._drop_surplus()

    async def read(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        now = self._now()
        rows = await self._database.call("read_records", bytes_array(keys), now, self._keep)
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
        await self._database.call("delete_records", bytes_array(keys))

    async def conversation(self, conversation_id: str) -> ConversationInfo | None:
        rows = await self._database.call(
            "read_conversation", storable(conversation_id), self._now(), self._keep
        )
        if not rows:
            return None
        *texts, requests, created, updated, session = rows[0]
        numbers = [read_number(data) or 0 for data in (requests, created, updated)]
        return _info((*((data or b"").decode() for data in texts), *numbers, (session or b"").decode()))

    async def conversations(self, limit: int = 50, caller: str | None = None) -> Sequence[ConversationInfo]:
        owner = None if caller is None else storable(caller)
        rows = await self._database.run(
            lambda connection: connection.fetch(_CONVERSATIONS, self._now(), self._keep, owner, limit)
        )
        return [_info(row) for row in rows]

    async def switch(self, conversation_id: str, model: str, caller: str | None = None) -> bool:
        owner = None if caller is None else storable(caller)
        changed = await self._database.run(
            lambda connection: connection.execute(
                "UPDATE {schema}.conversations SET switched = %s WHERE id = %s AND caller = coalesce(%s, caller)",
                storable(model),
                storable(conversation_id),
                owner,
            )
        )
        return changed > 0

    async def switch_session(self, session: str, model: str, caller: str) -> None:
        named = storable(session), storable(caller), storable(model)
        await self._database.run(
            lambda connection: connection.fetch(
                "SELECT {schema}.switch_session(%s, %s, %s, %s::int8)", *named, self._now()
            )
        )

    async def session_switch(self, session: str, caller: str) -> str:
        rows = await self._database.run(
            lambda connection: connection.fetch(
                "SELECT model FROM {schema}.session_switches WHERE session = %s AND caller = %s "
                "AND updated > coalesce(%s::int8, {schema}.memory_clock()) - %s",
                storable(session),
                storable(caller),
                self._now(),
                self._keep,
            )
        )
        return str(rows[0][0]) if rows else ""

    async def check(self) -> None:
        await self._database.check()

    async def close(self) -> None:
        if self._flushes:
            await asyncio.wait(self._flushes)
        await self._database.close()

    def _now(self) -> int | None:
        """None: the database's own clock."""
        return None if self._clock is None else round(self._clock() * _MICROSECONDS)

    async def _drop_old(self, now: int | None) -> None:
        moment = time.monotonic() if now is None else now / _MICROSECONDS
        if moment >= self._expire_at:
            self._expire_at = moment + _EXPIRY_SECONDS
            await self._database.call("drop_old_records", now, self._keep)

    async def _drop_surplus(self) -> None:
        if (
            self._written_bytes > self._max_bytes * _CHECK_SHARE
            or self._written_records > self._max_records * _CHECK_SHARE
        ):
            self._written_bytes = self._written_records = 0
            await self._database.call("drop_surplus_records", self._max_bytes, self._max_records)

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


def _record_values(
    record: MemoryRecord | None,
) -> tuple[PackedArray | None, PackedArray | None, bytes | None]:
    if record is None:
        return None, None, None
    return bytes_array(record.keys), bytes_array(record.first_keys), record.body


def _note_values(seen: ConversationInfo) -> tuple[str, ...]:
    shown = (seen.id, seen.caller, seen.client, seen.door, seen.asked, seen.route, seen.session)
    return tuple(map(storable, shown))


def _info(row: tuple[Any, ...]) -> ConversationInfo:
    created, updated, session = row[-3:]
    return ConversationInfo(*[*row[:-3], created / _MICROSECONDS, updated / _MICROSECONDS, session])

"""The gateway's memory in one SQLite file, shared by any number of gateways on one machine.

Writes are whole or not there; they wait for the operating system, not for the disk, so that a killed process loses nothing
and a power cut at most the last moments. Reads and writes of usual replies take some ten microseconds, in the loop; large ones,
and dropping what is old, are the thread's.
"""

from __future__ import annotations

import time
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from segue.databases.shared_sqlite_file import PATIENCE, SharedFile, VolatileFile
from segue.gateway.memory.store import ConversationInfo, MemoryRecord

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

VERSION: Final = 2
_BATCH: Final = 500
"""Keys in one statement."""
_TOUCH_SECONDS: Final = 3600.0
"""How exact the time of last use is: one write an hour for a record that is read all the time."""
_EXPIRY_SECONDS: Final = 600.0
_FULL: Final = 0.9
"""What is left after the oldest were dropped, so that not every write drops."""
_CHECK_SHARE: Final = 0.01
"""After so much of what may be kept was written here, all is counted."""
_SMALL: Final = 1 << 16
"""Bytes of a record that is written in the loop."""

_SESSIONS: Final = (
    "CREATE INDEX conversations_by_session ON conversations (session) WHERE session <> ''",
    """CREATE TABLE session_switches (
        session TEXT, caller TEXT, model TEXT NOT NULL, updated REAL NOT NULL, PRIMARY KEY (session, caller)
    ) WITHOUT ROWID""",
)
_SCHEMA: Final = (
    """CREATE TABLE records (
        number INTEGER PRIMARY KEY, used REAL NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL
    )""",
    "CREATE INDEX records_by_use ON records (used, size)",
    """CREATE TABLE keys (
        key BLOB PRIMARY KEY, record INTEGER NOT NULL REFERENCES records (number) ON DELETE CASCADE
    ) WITHOUT ROWID""",
    "CREATE INDEX keys_by_record ON keys (record)",
    """CREATE TABLE conversations (
        id TEXT PRIMARY KEY, caller TEXT NOT NULL, client TEXT NOT NULL, door TEXT NOT NULL, asked TEXT NOT NULL,
        route TEXT NOT NULL, switched TEXT NOT NULL, requests INTEGER NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, session TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX conversations_by_use ON conversations (updated)",
    *_SESSIONS,
)
_INSERT: Final = """INSERT INTO conversations VALUES (?1, ?2, ?3, ?4, ?5, ?6,
    coalesce((SELECT model FROM session_switches WHERE session = ?8 AND caller = ?2), ''), ?9, ?7, ?7, ?8)
    ON CONFLICT (id) DO UPDATE SET """
_NOTE: Final = f"""{_INSERT} client = excluded.client, door = excluded.door, asked = excluded.asked, route = excluded.route,
    requests = requests + 1, updated = excluded.updated, session = excluded.session WHERE caller = excluded.caller"""
_NOTE_REQUEST: Final = f"{_INSERT} updated = max(updated, excluded.updated) WHERE caller = excluded.caller"
_UPGRADES: Final = {
    1: ("ALTER TABLE conversations ADD COLUMN session TEXT NOT NULL DEFAULT ''", *_SESSIONS),
}


class SQLiteMemoryStore:
    """Keeps the memory in a file, which only its owner may read. Not for network disks: they do not lock reliably."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = 1 << 30,
        max_records: int = 500_000,
        keep_seconds: float = 30 * 86_400.0,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`path`: None for what ends with the process."""
        self.is_volatile = path is None
        opened = VolatileFile if path is None else SharedFile
        self._file = opened(
            path or "",
            "The gateway's memory",
            _SCHEMA,
            VERSION,
            upgrades=_UPGRADES,
            page_size=2048,
            patience=patience,
        )
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._expire_at = 0.0
        self._unchecked_bytes = max_bytes
        self._unchecked_records = max_records
        self._touched: set[int] = set()

    async def write(self, records: Sequence[MemoryRecord], seen: ConversationInfo | None = None) -> None:
        change = partial(self._write, records, seen, self._take_touched())
        size = sum(len(record.body) for record in records)
        self._unchecked_bytes += size
        self._unchecked_records += len(records)
        if size > _SMALL:
            # The thread does it even if the caller is cancelled meanwhile.
            await self._file.write(partial(self._write_and_drop, change))
        elif self._may_hold_too_much() or not await self._file.write_together(change):
            await self._file.write_late(partial(self._write_and_drop, change))

    async def read(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return await self._file.read(partial(self._read, keys))

    async def delete(self, keys: Sequence[bytes]) -> None:
        await self._file.run(self._delete, keys)

    async def note_request(self, seen: ConversationInfo) -> None:
        change = partial(self._note_request, seen)
        if not await self._file.write_together(change):
            await self._file.write_late(change)

    async def note(self, seen: ConversationInfo) -> None:
        await self.write((), seen)

    async def conversation(self, conversation_id: str) -> ConversationInfo | None:
        row = await self._file.read(
            lambda connection: connection.execute(
                "SELECT * FROM conversations WHERE id = ? AND updated > ?",
                (conversation_id, self._clock() - self._keep_seconds),
            ).fetchone()
        )
        return ConversationInfo(*row) if row is not None else None

    async def conversations(self, limit: int = 50, caller: str | None = None) -> Sequence[ConversationInfo]:
        rows = await self._file.read(
            lambda connection: connection.execute(
                """SELECT * FROM conversations WHERE updated > ? AND caller = coalesce(?, caller)
                ORDER BY updated DESC, id LIMIT ?""",
                (self._clock() - self._keep_seconds, caller, limit),
            ).fetchall()
        )
        return [ConversationInfo(*row) for row in rows]

    async def switch(self, conversation_id: str, model: str, caller: str | None = None) -> bool:
        return await self._file.run(self._switch, conversation_id, model, caller)

    async def switch_session(self, session: str, model: str, caller: str) -> None:
        await self._file.run(self._switch_session, session, model, caller)

    async def session_switch(self, session: str, caller: str) -> str:
        row = await self._file.read(
            lambda connection: connection.execute(
                "SELECT model FROM session_switches WHERE session = ? AND caller = ? AND updated > ?",
                (session, caller, self._clock() - self._keep_seconds),
            ).fetchone()
        )
        return row[0] if row is not None else ""

    async def check(self) -> None:
        await self._file.check()

    async def close(self) -> None:
        await self._file.close(self._write_touched)

    def _read(self, keys: Sequence[bytes], connection: sqlite3.Connection) -> dict[bytes, bytes]:
        now = self._clock()
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            rows = connection.execute(_select(len(batch)), (*batch, now - self._keep_seconds))
            for key, body, number, used in rows:
                found[key] = body
                if used < now - _TOUCH_SECONDS:
                    self._touched.add(number)
        return found

    def _take_touched(self) -> set[int]:
        """Records whose time of use is written along with the next reply: reading alone writes nothing."""
        touched, self._touched = self._touched, set()
        return touched

    def _may_hold_too_much(self) -> bool:
        return (
            self._clock() >= self._expire_at
            or self._unchecked_bytes >= self._max_bytes * _CHECK_SHARE
            or self._unchecked_records >= self._max_records * _CHECK_SHARE
        )

    def _write(
        self,
        records: Sequence[MemoryRecord],
        seen: ConversationInfo | None,
        touched: set[int],
        connection: sqlite3.Connection,
    ) -> None:
        now = self._clock()
        if seen is not None:
            self._note(connection, seen, now)
        for record in records:
            number = connection.execute(
                "INSERT INTO records (used, size, body) VALUES (?, ?, ?)",
                (now, len(record.body), record.body),
            ).lastrowid
            rows = [(key, number) for key in record.keys]
            new = connection.executemany("INSERT OR IGNORE INTO keys (key, record) VALUES (?, ?)", rows)
            if new.rowcount < len(rows):
                _replace(connection, rows)
            if record.first_keys:
                firsts = [(key, number) for key in record.first_keys]
                connection.executemany("INSERT OR IGNORE INTO keys (key, record) VALUES (?, ?)", firsts)
        if touched:
            connection.executemany(
                "UPDATE records SET used = ? WHERE number = ?", [(now, number) for number in touched]
            )

    # Everything below runs in the worker's thread.

    def _write_touched(self) -> None:
        if self._touched:
            with self._file.writing() as connection:
                self._write((), None, self._take_touched(), connection)

    def _write_and_drop(
        self, change: Callable[[sqlite3.Connection], None], connection: sqlite3.Connection
    ) -> None:
        change(connection)
        self._drop_old(connection, self._clock())
        self._drop_surplus(connection)

    def _drop_old(self, connection: sqlite3.Connection, now: float) -> None:
        if now < self._expire_at:
            return
        self._expire_at = now + _EXPIRY_SECONDS
        limit = now - self._keep_seconds
        connection.execute("DELETE FROM records WHERE used <= ?", (limit,))
        connection.execute("DELETE FROM conversations WHERE updated <= ?", (limit,))
        connection.execute("DELETE FROM session_switches WHERE updated <= ?", (limit,))

    def _drop_surplus(self, connection: sqlite3.Connection) -> None:
        """Drop those unused the longest until there is room again."""
        if (
            self._unchecked_bytes < self._max_bytes * _CHECK_SHARE
            and self._unchecked_records < self._max_records * _CHECK_SHARE
        ):
            return
        self._unchecked_bytes = self._unchecked_records = 0
        held, count = connection.execute("SELECT coalesce(sum(size), 0), count(*) FROM records").fetchone()
        if held <= self._max_bytes and count <= self._max_records:
            return
        doomed: list[tuple[int]] = []
        for number, size in connection.execute("SELECT number, size FROM records ORDER BY used, number"):
            if held <= self._max_bytes * _FULL and count <= self._max_records * _FULL:
                break
            doomed.append((number,))
            held -= size
            count -= 1
        connection.executemany("DELETE FROM records WHERE number = ?", doomed)

    def _delete(self, keys: Sequence[bytes]) -> None:
        with self._file.writing() as connection:
            connection.executemany(
                "DELETE FROM records WHERE number = (SELECT record FROM keys WHERE key = ?)",
                [(key,) for key in keys],
            )

    def _note(self, connection: sqlite3.Connection, seen: ConversationInfo, now: float) -> None:
        connection.execute(_NOTE, (*_row(seen, now), 1))

    def _note_request(self, seen: ConversationInfo, connection: sqlite3.Connection) -> None:
        connection.execute(_NOTE_REQUEST, (*_row(seen, self._clock()), 0))

    def _switch(self, conversation_id: str, model: str, caller: str | None) -> bool:
        with self._file.writing() as connection:
            changed = connection.execute(
                "UPDATE conversations SET switched = ? WHERE id = ? AND caller = coalesce(?, caller)",
                (model, conversation_id, caller),
            )
            return changed.rowcount > 0

    def _switch_session(self, session: str, model: str, caller: str) -> None:
        with self._file.writing() as connection:
            connection.execute(
                "UPDATE conversations SET switched = ? WHERE session = ? AND caller = ?",
                (model, session, caller),
            )
            connection.execute(
                "INSERT OR REPLACE INTO session_switches VALUES (?, ?, ?, ?)",
                (session, caller, model, self._clock()),
            )


def _row(seen: ConversationInfo, now: float) -> tuple[str | float, ...]:
    return seen.id, seen.caller, seen.client, seen.door, seen.asked, seen.route, now, seen.session


@lru_cache(maxsize=_BATCH)
def _select(count: int) -> str:
    marks = ",".join("?" * count)
    return f"""SELECT key, body, number, used FROM keys JOIN records ON number = record
        WHERE key IN ({marks}) AND used > ?"""  # noqa: S608 - question marks


def _replace(connection: sqlite3.Connection, rows: list[tuple[bytes, int | None]]) -> None:
    """Some of the keys are known: they get the new record, and what no key leads to any more is dropped."""
    old = [
        number
        for key, _ in rows
        for number in connection.execute("SELECT record FROM keys WHERE key = ?", (key,))
    ]
    connection.executemany("INSERT OR REPLACE INTO keys (key, record) VALUES (?, ?)", rows)
    connection.executemany(
        "DELETE FROM records WHERE number = ?1 AND NOT EXISTS (SELECT 1 FROM keys WHERE record = ?1)", old
    )

"""Sessions in one SQLite file, shared by any number of processes on one machine.

Who may write is decided by compare-and-set on the epoch, inside the transaction that writes: a writer that was taken
over while it stalled is refused, whatever it believes. Leases are measured by the database's clock.

The forms that the file has had are numbered steps. A step once released never changes; a new one follows it. Each row
of entries has a checksum, and rows are read one by one where the file is damaged.
"""

from __future__ import annotations

import sqlite3
import struct
import time
from itertools import islice, repeat
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypeVar
from zlib import crc32

from segue.databases.sqlite import connect, take_steps, writing
from segue.errors import JournalError
from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Entry, Link, Record, SessionStarted
from segue.sessions.entry_codec import decode_entries, decode_stored
from segue.sessions.leases import LEASE_SECONDS, Claim, Lease, Owner, refuse_busy, stored_claim
from segue.sessions.listing import ListingChange, fold_text, info_in_row, is_use, last_use, listing_change
from segue.sessions.stores.store import SessionInfo, check_session_id, intact
from segue.system.worker_threads import Worker

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from segue.sessions.entry_codec import EncodedEntry


PATIENCE: Final = 20.0
"""Seconds to wait for another process's transaction; each takes milliseconds."""
SEQ_BITS: Final = 32
SEQ_MASK: Final = (1 << SEQ_BITS) - 1

Row: TypeAlias = tuple[int, Any, Any, Any, Any]
"""Place, time, epoch, body, checksum. SQLite keeps the types that were stored, so damage can change them."""
ReadRows: TypeAlias = "Callable[[sqlite3.Connection, int, int], Iterator[Row]]"
"""The rows from one place up to before another."""
Step: TypeAlias = tuple[int, str]
"""A number, and the statements that lead to the form of that number."""

_BATCH: Final = 500
"""Rows that are read together: few enough to stay in the processor's cache."""
_HEAD: Final = struct.Struct("<qdq")
# As bytes: text that is no longer UTF-8 could not be read at all.
_COLUMNS: Final = "SELECT place, at, epoch, CAST(body AS BLOB), checksum FROM entries"
_UNREADABLE: Final = object()


def open_database(path: Path, patience: float = PATIENCE) -> sqlite3.Connection:
    """A connection that is durable, private to its owner, and migrated to the newest form."""
    connection = connect(
        path,
        patience=patience,
        settings=("synchronous = FULL", "fullfsync = ON", "foreign_keys = ON", "secure_delete = ON"),
    )
    try:
        # A list that shows a damaged letter is better than none.
        connection.text_factory = _as_text
        connection.create_function("fold", 1, _fold, deterministic=True)
        migrate(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _as_text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _fold(stored: bytes | None) -> str:
    return fold_text(_as_text(stored or b""))


def known_steps() -> list[Step]:
    files = sorted((Path(__file__).parent / "sqlite_migrations").glob("[0-9]*.sql"))
    return [(int(file.name.partition("_")[0]), file.read_text("utf-8")) for file in files]


def migrate(connection: sqlite3.Connection, place: str, steps: Sequence[Step] | None = None) -> None:
    """Bring a file up to date, each step whole or not at all. Raises JournalError `newer_store`."""
    steps = known_steps() if steps is None else steps
    newest = max(number for number, _ in steps)

    def due(version: int) -> list[tuple[int, Iterator[str]]]:
        return [(number, _statements(script)) for number, script in steps if number > version]

    take_steps(connection, due, _version, _record)
    if (version := _version(connection)) > newest:
        raise errors.newer_store(place, version, newest)


def _record(connection: sqlite3.Connection, number: int) -> None:
    connection.execute(
        """CREATE TABLE IF NOT EXISTS migrations (
            number INTEGER PRIMARY KEY, taken TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
        )"""
    )
    connection.execute("INSERT INTO migrations (number) VALUES (?)", (number,))


def _version(connection: sqlite3.Connection) -> int:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'")
    if not known.fetchall():
        return 0
    (version,) = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
    return int(version)


def _statements(script: str) -> Iterator[str]:
    # `executescript` would commit what the transaction has done so far.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def checksum(place: int, at: float, epoch: int, body: bytes) -> int:
    return crc32(body, crc32(_HEAD.pack(place, at, epoch)))


def read_rows(connection: sqlite3.Connection, first: int, end: int) -> Iterator[Row]:
    return connection.execute(f"{_COLUMNS} WHERE place >= ? AND place < ? ORDER BY place", (first, end))


def salvage_rows(connection: sqlite3.Connection, first: int, end: int) -> Iterator[Row]:
    """The rows as far as they can be read. Where a page is damaged, every row is tried by itself."""
    last = first - 1
    try:
        for row in read_rows(connection, first, end):
            yield row
            last = row[0]
    except sqlite3.DatabaseError:
        pass
    else:
        return
    for place in range(last + 1, _last_readable(connection, last, end) + 1):
        try:
            rows = connection.execute(f"{_COLUMNS} WHERE place = ?", (place,)).fetchall()
        except sqlite3.DatabaseError:
            rows = []
        yield rows[0] if rows else (place, None, None, _UNREADABLE, None)


def _last_readable(connection: sqlite3.Connection, last: int, end: int) -> int:
    """The last row before `end` that can be read; one behind `last` if there is none, for something is there."""
    rows = connection.execute(
        "SELECT place FROM entries WHERE place > ? AND place < ? ORDER BY place DESC", (last, end)
    )
    try:
        row = rows.fetchone()
    except sqlite3.DatabaseError:
        row = None
    return int(row[0]) if row else last + 1


def read_records(rows: Iterable[Row], file: str) -> list[Record | DamagedEntry]:
    """What the rows hold. Raises JournalError `newer_entry`."""
    records: list[Record | DamagedEntry] = []
    remaining = iter(rows)
    while batch := list(islice(remaining, _BATCH)):
        records += _whole_batch(batch) or [stored_record(row, file) for row in batch]
    return records


def _whole_batch(batch: list[Row]) -> list[Record] | None:
    """The entries of rows that are all whole, as almost always; None if one is not. Column by column, so that the work is
    done in C: a long session has hundreds of thousands of rows."""
    places, times, epochs, bodies, checksums = zip(*batch, strict=True)
    try:
        heads = map(crc32, map(_HEAD.pack, places, times, epochs))
        if tuple(map(crc32, bodies, heads)) != checksums or set(map(type, times)) != {float}:
            return None
        return list(map(Record, map(SEQ_MASK.__and__, places), times, decode_entries(bodies)))
    except (struct.error, TypeError, JournalError):
        return None


def stored_record(row: Row, file: str) -> Record | DamagedEntry:
    """What a row holds. Raises JournalError `newer_entry`."""
    place, at, epoch, body, expected = row
    seq, where = place & SEQ_MASK, f"{file}, row {place}"
    if type(body) is not bytes or type(at) is not float or type(epoch) is not int:
        return DamagedEntry(seq, where, "it cannot be read", body if type(body) is bytes else b"")
    if expected is not None and expected != checksum(place, at, epoch, body):
        return DamagedEntry(seq, where, "its checksum is another one", body)
    return decode_stored(body, seq, at, where)


_P = ParamSpec("_P")
_T = TypeVar("_T")

FAST_PATIENCE: Final = 0.005
SLOW_SECONDS: Final = 0.01
SLOW_WRITES: Final = 3
SLOW_FOR_SECONDS: Final = 10.0
"""So many slow writes in a row send the next ones through the worker for a while: the loop must not wait for them."""

# Not unixepoch('subsec'): SQLite knows it only since 3.42.
_NOW: Final = "((julianday('now') - 2440587.5) * 86400.0)"
_NO_CHANGE: Final = ListingChange()
_OWN_PLACES: Final = f"place > number << {SEQ_BITS} AND place < (number + 1) << {SEQ_BITS}"
"""The entries of one row of `sessions`: those whose upper bits are its number."""
_CLAIM_COLUMNS: Final = "host, pid, token, born, held_since, held_until"


class SQLiteStore:
    """Keeps journals in a file, which only its owner may read. Not for network disks: they do not lock reliably."""

    def __init__(self, path: str | os.PathLike[str], *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._path = Path(path)
        self._lease_seconds = lease_seconds
        self._worker = Worker("segue-sqlite")
        self._opened: sqlite3.Connection | None = None
        self._fast_connection: sqlite3.Connection | None = None
        self._fast_lock = Lock()
        self._slow_until = 0.0
        self._slow_writes = 0

    async def create(
        self,
        session: str,
        started: EncodedEntry[SessionStarted],
        owner: Owner,
        *,
        more: Sequence[EncodedEntry[Entry]] = (),
        times: Sequence[float] = (),
    ) -> Lease:
        check_session_id(session)
        return await self._run(self._create, session, started, owner, more, times)

    async def claim(self, session: str, owner: Owner, *, take_over: bool = False) -> Lease:
        return await self._run(self._claim, session, owner, take_over=take_over)

    async def renew(self, lease: Lease) -> None:
        await self._run(self._renew, lease)

    async def release(self, lease: Lease) -> None:
        await self._run(self._release, lease)

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        done = self._append_fast(lease, entries)
        return await self._run(self._append, lease, entries) if done is None else done

    async def read(self, session: str, *, after: int = 0) -> list[Record]:
        return intact(session, await self._run(self._read, session, after, read_rows))

    async def salvage(self, session: str) -> list[Record | DamagedEntry]:
        return await self._run(self._read, session, 0, salvage_rows)

    async def find(
        self, *, text: str = "", parent: str = "", used: bool = False, limit: int = 50
    ) -> list[SessionInfo]:
        return await self._run(self._find, fold_text(text), parent, limit, used=used)

    async def delete(self, session: str) -> None:
        await self._run(self._delete, session)

    async def close(self) -> None:
        await self._worker.close(self._close)

    async def _run(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await self._worker.run(do, *args, **kwargs)
        except (sqlite3.Error, OSError) as error:
            code = error.sqlite_errorcode & 0xFF if hasattr(error, "sqlite_errorcode") else None
            damaged = code == sqlite3.SQLITE_CORRUPT
            failed = errors.damaged_store if damaged else errors.store_failed
            raise failed(str(self._path), str(error)) from error

    def _append_fast(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int | None:
        """Append without the worker, since handing over takes as long as writing. None if the loop might have to wait:
        for another process, another thread, or a disk that was slow of late."""
        began = time.monotonic()
        if began < self._slow_until or not self._fast_lock.acquire(blocking=False):
            return None
        try:
            if self._fast_connection is None:
                self._fast_connection = open_database(self._path, FAST_PATIENCE)
            with writing(self._fast_connection) as connection:
                return self._write(connection, lease, entries)
        except (sqlite3.Error, OSError):
            return None  # whatever it is, the worker waits for it or reports it
        finally:
            ended = time.monotonic()
            self._slow_writes = self._slow_writes + 1 if ended - began > SLOW_SECONDS else 0
            if self._slow_writes >= SLOW_WRITES:
                self._slow_until, self._slow_writes = ended + SLOW_FOR_SECONDS, 0
            self._fast_lock.release()

    # Everything below runs in the worker's thread.

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = open_database(self._path)
        return self._opened

    def _close(self) -> None:
        with self._fast_lock:
            for connection in (self._opened, self._fast_connection):
                if connection is not None:
                    connection.close()
            self._opened = self._fast_connection = None

    def _create(
        self,
        session: str,
        started: EncodedEntry[SessionStarted],
        owner: Owner,
        more: Sequence[EncodedEntry[Entry]],
        times: Sequence[float],
    ) -> Lease:
        first = started.entry
        link = first.parent or Link("")
        with writing(self._connection) as connection:
            try:
                connection.execute(
                    f"""INSERT INTO sessions (id, directory, parent, parent_call, parent_seq, created, updated)
                    VALUES (?, ?, ?, ?, ?, {_NOW}, {_NOW})""",  # noqa: S608 - a constant
                    (session, first.directory, link.session, link.call, link.seq),
                )
            except sqlite3.IntegrityError as error:
                raise errors.session_exists(session) from error
            lease = self._grant(connection, session, owner)
            entries = (started, *more)
            self._write(connection, lease, entries, times)
            if times:
                used = last_use((encoded.entry for encoded in entries), times)
                connection.execute(
                    "UPDATE sessions SET created = ?, updated = ? WHERE id = ?", (times[0], used, session)
                )
        return lease

    def _claim(self, session: str, owner: Owner, *, take_over: bool) -> Lease:
        with writing(self._connection) as connection:
            now, claim = _read_claim(connection, session)
            if not take_over:
                refuse_busy(session, claim, now, claimant=owner)
            return self._grant(connection, session, owner)

    def _grant(self, connection: sqlite3.Connection, session: str, owner: Owner) -> Lease:
        ((epoch,),) = connection.execute(
            f"""UPDATE sessions SET epoch = epoch + 1, host = ?, pid = ?, token = ?, born = ?,
            held_since = {_NOW}, held_until = {_NOW} + ? WHERE id = ? RETURNING epoch""",  # noqa: S608 - a constant
            (owner.host, owner.pid, owner.token, owner.born, self._lease_seconds, session),
        ).fetchall()
        return Lease(session, owner, epoch)

    def _renew(self, lease: Lease) -> None:
        with writing(self._connection) as connection:
            renewed = connection.execute(
                f"""UPDATE sessions SET held_until = {_NOW} + ?
                WHERE id = ? AND epoch = ? AND token = ?""",  # noqa: S608 - a constant
                (self._lease_seconds, lease.session, lease.epoch, lease.owner.token),
            ).rowcount
            if not renewed:
                raise errors.fenced(lease.session)

    def _release(self, lease: Lease) -> None:
        with writing(self._connection) as connection:
            connection.execute(
                "UPDATE sessions SET token = '', held_until = 0 WHERE id = ? AND epoch = ? AND token = ?",
                (lease.session, lease.epoch, lease.owner.token),
            )

    def _append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        with writing(self._connection) as connection:
            return self._write(connection, lease, entries)

    def _write(
        self,
        connection: sqlite3.Connection,
        lease: Lease,
        entries: Sequence[EncodedEntry[Entry]],
        times: Sequence[float] = (),
    ) -> int:
        # The fence. The transaction has the only right to write, so what is read here stays true until its end.
        row = connection.execute(
            f"""SELECT number, {_NOW}, (SELECT max(place) FROM entries WHERE {_OWN_PLACES}) FROM sessions
            WHERE id = ? AND epoch = ? AND token = ?""",  # noqa: S608 - constants
            (lease.session, lease.epoch, lease.owner.token),
        ).fetchone()
        if row is None:
            raise errors.fenced(lease.session)
        number, at, last = row
        first = (number << SEQ_BITS if last is None else last) + 1
        connection.executemany(
            "INSERT INTO entries (place, at, epoch, body, checksum) VALUES (?, ?, ?, ?, ?)",
            [
                (
                    place,
                    moment,
                    lease.epoch,
                    encoded.body.decode(),
                    checksum(place, moment, lease.epoch, encoded.body),
                )
                for place, (encoded, moment) in enumerate(zip(entries, times or repeat(at)), first)  # noqa: B905
            ],
        )
        change = listing_change(encoded.entry for encoded in entries)
        if change != _NO_CHANGE:
            self._update_listing(connection, number, at, change)
        return int(first + len(entries) - 1) & SEQ_MASK

    def _update_listing(
        self, connection: sqlite3.Connection, number: int, at: float, change: ListingChange
    ) -> None:
        """Update what the list and the search show of a session. Most entries change none of it."""
        if change.replies or change.failures:
            connection.execute(
                "UPDATE sessions SET replies = replies + ?, failures = failures + ? WHERE number = ?",
                (change.replies, change.failures, number),
            )
        if is_use(change):
            connection.execute(
                """UPDATE sessions SET updated = ?, held_until = ? + ?, turns = turns + ?,
                title = coalesce(?, title), model = coalesce(nullif(?, ''), model),
                first_words = coalesce(nullif(first_words, ''), ?) WHERE number = ?""",
                (
                    at,
                    at,
                    self._lease_seconds,
                    change.turns,
                    change.title,
                    change.model,
                    change.first_words,
                    number,
                ),
            )
        if change.texts:
            connection.executemany(
                "INSERT INTO said (session, words) VALUES (?, ?)", [(number, text) for text in change.texts]
            )

    def _read(self, session: str, after: int, rows: ReadRows) -> list[Record | DamagedEntry]:
        number = _number(self._connection, session)
        first, end = (number << SEQ_BITS) + after + 1, (number + 1) << SEQ_BITS
        return read_records(rows(self._connection, first, end), str(self._path))

    def _find(self, text: str, parent: str, limit: int, *, used: bool) -> list[SessionInfo]:
        shown = "parent = :parent" if parent else "parent_call = ''"
        if used:
            shown += " AND turns > 0 AND (failures = 0 OR replies > 0)"
        if text:
            shown += """ AND (instr(fold(CAST(title AS BLOB)), :text) OR instr(fold(CAST(first_words AS BLOB)), :text)
                OR number IN (SELECT session FROM said WHERE instr(words, :text)))"""
        rows = self._connection.execute(
            f"""SELECT {_NOW}, {_CLAIM_COLUMNS}, id, title, model, directory, created, updated,
            (SELECT max(place) FROM entries WHERE {_OWN_PLACES}) & {SEQ_MASK}, turns, replies, failures, first_words,
            parent, parent_call, parent_seq FROM sessions WHERE {shown}
            ORDER BY updated DESC, number DESC LIMIT :limit""",  # noqa: S608 - constants
            {"parent": parent, "text": text, "limit": limit},
        )
        return [info_in_row(row) for row in rows]

    def _delete(self, session: str) -> None:
        with writing(self._connection) as connection:
            _number(connection, session)
            family = connection.execute(
                """WITH RECURSIVE family (id) AS (
                    VALUES (?) UNION SELECT sessions.id FROM sessions JOIN family ON parent = family.id
                    WHERE parent_call <> ''
                ) SELECT id FROM family""",
                (session,),
            ).fetchall()
            for (name,) in family:
                now, claim = _read_claim(connection, name)
                refuse_busy(name, claim, now)
            connection.executemany(
                f"""DELETE FROM entries WHERE place IN
                (SELECT place FROM sessions JOIN entries ON {_OWN_PLACES} WHERE id = ?)""",  # noqa: S608 - a constant
                family,
            )
            connection.executemany("DELETE FROM sessions WHERE id = ?", family)


def _number(connection: sqlite3.Connection, session: str) -> int:
    row = connection.execute("SELECT number FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise errors.unknown_session(session)
    return int(row[0])


def _read_claim(connection: sqlite3.Connection, session: str) -> tuple[float, Claim | None]:
    """The database's time, and who has the session."""
    row = connection.execute(
        f"SELECT {_NOW}, {_CLAIM_COLUMNS} FROM sessions WHERE id = ?",  # noqa: S608 - constants
        (session,),
    ).fetchone()
    if row is None:
        raise errors.unknown_session(session)
    return row[0], stored_claim(*row[1:])

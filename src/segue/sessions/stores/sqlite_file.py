"""The SQLite file of sessions: how it is opened and brought up to date, and its rows of entries, each with a checksum and
read one by one where the file is damaged.

The forms that the file has had are numbered steps. A step once released never changes; a new one follows it.
"""

from __future__ import annotations

import sqlite3
import struct
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import crc32

from segue.databases.sqlite import connect, take_steps
from segue.errors import JournalError
from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Record
from segue.sessions.entry_codec import decode_entries, decode_stored
from segue.sessions.listing import fold_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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

"""The rows of entries in PostgreSQL: each with a checksum, read one by one where the database is damaged.

The digest of the body is made by the writer, and that of the whole row by the database, which alone knows its number and
time: so an entry is checked from the writer to the reader, and an append takes one round trip.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import crc32

import psycopg

from segue.databases.postgres.errors import is_corrupt
from segue.sessions.entries import DamagedEntry, Record
from segue.sessions.entry_codec import decode_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.databases.postgres.connection import DatabaseConnection

EntryRow: TypeAlias = tuple[int, int, int, Any, Any]
"""Sequence number, time, epoch, body, checksum."""

MICROSECONDS: Final = 1_000_000
_COLUMNS: Final = "SELECT seq, at, epoch, body, checksum FROM {schema}.entries WHERE number = %s"


def body_digest(body: bytes) -> int:
    return crc32(body)


def read_records(
    connection: DatabaseConnection, shown: str, number: int, after: int, last: int
) -> list[Record | DamagedEntry]:
    """The entries after `after`; there are at least those up to `last`."""
    rows = connection.fetch(f"{_COLUMNS} AND seq > %s ORDER BY seq", number, after)
    return list(_records(rows, shown, number, after, last))


def salvage_records(
    connection: DatabaseConnection, shown: str, number: int, last: int
) -> list[Record | DamagedEntry]:
    """The entries as far as they can be read. Where a page is damaged, every row is tried by itself."""
    try:
        return read_records(connection, shown, number, 0, last)
    except psycopg.Error as error:
        if not is_corrupt(error):
            raise
    rows: list[Any] = []
    for seq in range(1, last + 1):
        try:
            rows += connection.fetch(f"{_COLUMNS} AND seq = %s", number, seq)
        except psycopg.Error as error:
            if not is_corrupt(error):
                raise
            rows.append((seq, 0, 0, None, None))
    return list(_records(rows, shown, number, 0, last))


def _records(
    rows: list[EntryRow], shown: str, number: int, after: int, last: int
) -> Iterator[Record | DamagedEntry]:
    expected = after + 1
    for row in rows:
        yield from _missing(shown, number, expected, row[0])
        yield _stored_record(row, shown, number)
        expected = row[0] + 1
    yield from _missing(shown, number, expected, last + 1)


def _missing(shown: str, number: int, first: int, end: int) -> Iterator[DamagedEntry]:
    for seq in range(first, end):
        yield DamagedEntry(seq, _where(shown, number, seq), "it is missing")


def _stored_record(row: EntryRow, shown: str, number: int) -> Record | DamagedEntry:
    """What a row holds. Raises JournalError `newer_entry`."""
    seq, at, epoch, body, checksum = row
    where = _where(shown, number, seq)
    if body is None:
        return DamagedEntry(seq, where, "it cannot be read")
    head = f"{number} {seq} {at} {epoch} {body_digest(body)}"
    if checksum != sha256(head.encode()).digest()[:8]:
        return DamagedEntry(seq, where, "its checksum is another one", body)
    return decode_stored(body, seq, at / MICROSECONDS, where)


def _where(shown: str, number: int, seq: int) -> str:
    return f"{shown}, entries ({number}, {seq})"

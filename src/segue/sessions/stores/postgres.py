"""Sessions in PostgreSQL, shared by any number of machines.

Who may write is decided by compare-and-set on the epoch, inside the transaction that writes: a writer that was taken over
while it stalled is refused, whatever it believes. Leases are measured by the database's clock.

Each entry has a checksum: the digest of the body is made by the writer, and that of the whole row by the database, which alone knows
its number and time. So an entry is checked from the writer to the reader, and an append takes one round trip. Where the database is
damaged, rows are read one by one.
"""

from __future__ import annotations

import asyncio
import random
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import crc32

import psycopg

from segue.conversation.json_safe import encodable
from segue.databases.postgres.connection import bytes_array, number_array, read_number, text_array
from segue.databases.postgres.database import PATIENCE, Database
from segue.databases.postgres.errors import is_corrupt
from segue.databases.postgres.migrations import read_steps
from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Entry, Link, Record, SessionStarted
from segue.sessions.entry_codec import decode_stored
from segue.sessions.leases import LEASE_SECONDS, Claim, Lease, Owner, refuse_busy, stored_claim
from segue.sessions.listing import fold_text, info_in_row, is_use, last_use, listing_change
from segue.sessions.stores.store import SessionInfo, check_session_id, intact, outlast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.databases.postgres.connection import DatabaseConnection
    from segue.sessions.entry_codec import EncodedEntry


EntryRow: TypeAlias = tuple[int, int, int, Any, Any]
"""Sequence number, time, epoch, body, checksum."""

MICROSECONDS: Final = 1_000_000
_COLUMNS: Final = "SELECT seq, at, epoch, body, checksum FROM {schema}.entries WHERE number = %s"
PART: Final = "sessions"
_SECOND: Final = f"{MICROSECONDS}::float8"
_CLAIM: Final = f"""{{schema}}.clock() / {_SECOND}, host, pid, token, born, held_since / {_SECOND},
    held_until / {_SECOND}"""
_EXPIRY_SECONDS: Final = 3600.0
_BATCH_BYTES: Final = 8 << 20
"""Of a long beginning, in one call."""


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


class PostgresStore:
    """Keeps journals in a schema of a PostgreSQL database: `postgresql://user:password@host/database?schema=segue`.

    With `days`, sessions unused for longer are dropped, by the week they began in: a week goes when all of it is that old.
    """

    def __init__(
        self,
        url: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        days: float | None = None,
        patience: float = PATIENCE,
    ) -> None:
        steps = read_steps(Path(__file__).parent / "postgres_migrations")
        self._database = Database(url, part=PART, steps=steps, patience=patience)
        self._shown = self._database.address.shown
        self._lease = round(lease_seconds * MICROSECONDS)
        self._days = days
        self._expire_at = 0.0

    def __repr__(self) -> str:
        return f"PostgresStore({self._shown!r})"

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
        await self._drop_old()
        lease = Lease(session, owner, 1)
        return await self._database.run(
            lambda connection: self._create(connection, lease, (started, *more), times)
        )

    async def claim(self, session: str, owner: Owner, *, take_over: bool = False) -> Lease:
        return await self._database.run(
            lambda connection: self._claim(connection, session, owner, take_over=take_over)
        )

    async def renew(self, lease: Lease) -> None:
        def renew(connection: DatabaseConnection) -> int:
            return connection.execute(
                """UPDATE {schema}.sessions SET held_until = {schema}.clock() + %s
                WHERE id = %s AND epoch = %s AND token = %s""",
                *(self._lease, _storable(lease.session), lease.epoch, lease.owner.token),
            )

        if not await self._database.run(renew):
            raise errors.fenced(lease.session)

    async def release(self, lease: Lease) -> None:
        await self._database.run(
            lambda connection: connection.execute(
                "UPDATE {schema}.sessions SET token = '', held_until = 0 WHERE id = %s AND epoch = %s AND token = %s",
                *(_storable(lease.session), lease.epoch, lease.owner.token),
            )
        )

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        values = self._values(entries)
        writing = asyncio.ensure_future(
            self._database.run(lambda connection: _append(connection, lease, values))
        )
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            # Another connection would read past a write that is still under way.
            await outlast(writing)
            raise

    async def read(self, session: str, *, after: int = 0) -> list[Record]:
        def read(connection: DatabaseConnection) -> list[Record | DamagedEntry]:
            number, last = _number(connection, session)
            return read_records(connection, self._shown, number, after, last)

        return intact(session, await self._database.run(read))

    async def salvage(self, session: str) -> list[Record | DamagedEntry]:
        def salvage(connection: DatabaseConnection) -> list[Record | DamagedEntry]:
            number, last = _number(connection, session)
            return salvage_records(connection, self._shown, number, last)

        return await self._database.run(salvage)

    async def find(
        self, *, text: str = "", parent: str = "", used: bool = False, limit: int = 50
    ) -> list[SessionInfo]:
        shown, values = _condition(_storable(fold_text(text)), _storable(parent), used=used)
        statement = f"""SELECT {_CLAIM}, id, title, model, directory, created / {_SECOND}, updated / {_SECOND}, last_seq, turns, replies,
            failures, first_words, parent, parent_call, parent_seq
            FROM {{schema}}.sessions WHERE {shown} ORDER BY updated DESC, number DESC LIMIT %s"""  # noqa: S608 - constants
        rows = await self._database.run(lambda connection: connection.fetch(statement, *values, limit))
        return [info_in_row(row) for row in rows]

    async def delete(self, session: str) -> None:
        await self._database.run(lambda connection: _delete(connection, session))

    async def close(self) -> None:
        await self._database.close()

    async def drop_old(self) -> int:
        """Drop sessions older than `days` now, and return how many. This also happens by itself every hour."""
        if self._days is None:
            return 0
        age = round(self._days * 86_400 * MICROSECONDS)
        ((count,),) = await self._database.run(
            lambda connection: connection.fetch(
                "SELECT {schema}.drop_old_sessions({schema}.clock() - %s)", age
            )
        )
        return int(count)

    async def _drop_old(self) -> None:
        now = time.monotonic()
        if self._days is not None and now >= self._expire_at:
            self._expire_at = now + _EXPIRY_SECONDS
            await self.drop_old()

    def _create(
        self,
        connection: DatabaseConnection,
        lease: Lease,
        entries: Sequence[EncodedEntry[Entry]],
        times: Sequence[float] = (),
    ) -> Lease:
        first, owner = entries[0].entry, lease.owner
        assert isinstance(first, SessionStarted)  # noqa: S101 - `create` takes no other
        link = first.parent or Link("")
        moments = [round(at * MICROSECONDS) for at in times]
        used = (
            round(last_use((encoded.entry for encoded in entries), times) * MICROSECONDS) if times else None
        )
        with connection.transaction():
            ((created,),) = connection.fetch(
                "SELECT {schema}.create_session(%s, %s, %s, %s, %s::int8, %s, %s::int8, %s, %s, %s::int8, %s::int8)",
                *(lease.session, _storable(first.directory), _storable(link.session), _storable(link.call)),
                *(link.seq, owner.host, owner.pid, owner.token, owner.born, self._lease),
                moments[0] if moments else None,
            )
            if created:
                done = 0
                for batch in _batches(entries):
                    written = moments[done : done + len(batch)]
                    _append(connection, lease, self._values(batch, written, used))
                    done += len(batch)
            elif not connection.retried or not _is_held(connection, lease):
                raise errors.session_exists(lease.session)
        return lease

    def _claim(self, connection: DatabaseConnection, session: str, owner: Owner, *, take_over: bool) -> Lease:
        with connection.transaction():
            now, claim = _read_claim(connection, session)
            if not take_over:
                refuse_busy(session, claim, now, claimant=owner)
            ((epoch,),) = connection.fetch(
                """UPDATE {schema}.sessions SET epoch = epoch + 1, host = %s, pid = %s, token = %s, born = %s,
                held_since = {schema}.clock(), held_until = {schema}.clock() + %s WHERE id = %s RETURNING epoch""",
                *(owner.host, owner.pid, owner.token, owner.born, self._lease, _storable(session)),
            )
        return Lease(session, owner, epoch)

    def _values(
        self, entries: Sequence[EncodedEntry[Entry]], moments: Sequence[int] = (), used: int | None = None
    ) -> tuple[Any, ...]:
        """What `append_entries` takes after the lease, but for whether it is asked again."""
        change = listing_change(encoded.entry for encoded in entries)
        title = None if change.title is None else _storable(change.title)
        words = _storable(change.first_words)
        bodies = [encoded.body for encoded in entries]
        return (
            random.getrandbits(63),
            bytes_array(bodies),
            number_array([body_digest(body) for body in bodies]),
            is_use(change),
            self._lease,
            title,
            None if title is None else fold_text(title),
            _storable(change.model),
            change.turns,
            words,
            fold_text(words),
            change.replies,
            change.failures,
            text_array([_storable(text) for text in change.texts]),
            number_array(moments) if moments else None,
            used,
        )


def _append(connection: DatabaseConnection, lease: Lease, values: tuple[Any, ...]) -> int:
    write, *rest = values
    head = (_storable(lease.session), lease.epoch, lease.owner.token, write, connection.retried)
    ((data,),) = connection.call("append_entries", *head, *rest)
    last = read_number(data)
    if last is None:
        raise errors.fenced(lease.session)
    return last


def _batches(entries: Sequence[EncodedEntry[Entry]]) -> Iterator[list[EncodedEntry[Entry]]]:
    batch: list[EncodedEntry[Entry]] = []
    size = 0
    for encoded in entries:
        batch.append(encoded)
        size += len(encoded.body)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_held(connection: DatabaseConnection, lease: Lease) -> bool:
    return bool(
        connection.fetch(
            "SELECT 1 FROM {schema}.sessions WHERE id = %s AND epoch = %s AND token = %s",
            *(lease.session, lease.epoch, lease.owner.token),
        )
    )


def _number(connection: DatabaseConnection, session: str) -> tuple[int, int]:
    """A session's own number, and that of its last entry."""
    rows = connection.fetch(
        "SELECT number, last_seq FROM {schema}.sessions WHERE id = %s", _storable(session)
    )
    if not rows:
        raise errors.unknown_session(session)
    number, last = rows[0]
    return int(number), int(last)


def _read_claim(connection: DatabaseConnection, session: str) -> tuple[float, Claim | None]:
    """The database's time, and who has the session. Its row is ours until the end of the transaction."""
    rows = connection.fetch(
        f"SELECT {_CLAIM} FROM {{schema}}.sessions WHERE id = %s FOR UPDATE",  # noqa: S608 - constants
        _storable(session),
    )
    if not rows:
        raise errors.unknown_session(session)
    now, *claim = rows[0]
    return now, stored_claim(*claim)


def _condition(text: str, parent: str, *, used: bool) -> tuple[str, list[object]]:
    shown, values = ("parent = %s", [parent]) if parent else ("parent_call = ''", [])
    if used:
        shown += " AND turns > 0 AND (failures = 0 OR replies > 0)"
    if text:
        shown += """ AND (position(%s IN folded_title) > 0 OR position(%s IN folded_first_words) > 0
            OR number IN (SELECT number FROM {schema}.said WHERE position(%s IN words) > 0))"""
        values = [*values, text, text, text]
    return shown, [*values]


def _delete(connection: DatabaseConnection, session: str) -> None:
    with connection.transaction():
        if connection.retried and not _exists(connection, session):
            return  # we did it, and did not get to know
        _read_claim(connection, session)
        family = connection.fetch(
            """WITH RECURSIVE family (id) AS (
                SELECT %s::text COLLATE "C" UNION SELECT sessions.id FROM {schema}.sessions
                JOIN family ON parent = family.id WHERE parent_call <> ''
            ) SELECT id FROM family""",
            session,
        )
        for (name,) in family:
            now, claim = _read_claim(connection, name)
            refuse_busy(name, claim, now)
        names = [name for (name,) in family]
        for table in ("entries", "said", "sessions"):
            connection.execute(
                f"""DELETE FROM {{schema}}.{table} WHERE number = ANY (ARRAY(
                SELECT number FROM {{schema}}.sessions WHERE id = ANY (%s)))""",  # noqa: S608 - constants
                names,
            )


def _exists(connection: DatabaseConnection, session: str) -> bool:
    return bool(connection.fetch("SELECT 1 FROM {schema}.sessions WHERE id = %s", _storable(session)))


def _storable(text: str) -> str:
    """A text that the database can hold: neither half characters nor NUL."""
    return encodable(text).replace("\0", "\ufffd")

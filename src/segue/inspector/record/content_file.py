"""What was recorded, in an encrypted SQLite file, so that the pages show it after a restart (`content = "store"`).

A body is kept as its pieces, each under its digest: what the requests of a conversation repeat is there once. Conversations that were
not used for the time that the gateway's memory keeps its own are deleted, and the oldest beyond the bound of bytes.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from time import time
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.message import Message
from segue.databases.sqlite import connect, writing
from segue.inspector.record.pieces import cut
from segue.inspector.record.records import RequestRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from segue.gateway.memory.installation_key import InstallationKey

_EXPIRY_SECONDS: Final = 600.0
_PATIENCE: Final = 5.0
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS conversations (id TEXT PRIMARY KEY, used REAL NOT NULL)",
    "CREATE INDEX IF NOT EXISTS conversations_by_use ON conversations (used)",
    """CREATE TABLE IF NOT EXISTS requests (
        id TEXT PRIMARY KEY, conversation TEXT NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS requests_by_conversation ON requests (conversation, number)",
    """CREATE TABLE IF NOT EXISTS pieces (
        conversation TEXT, digest BLOB, body BLOB NOT NULL, PRIMARY KEY (conversation, digest)
    ) WITHOUT ROWID""",
)
_LOG: Final = logging.getLogger("segue.inspector")


@final
class RequestOnDisk(Struct, kw_only=True):
    """A request with what was said."""

    record: RequestRecord
    title: str
    folder: str
    client: bytes
    provider: bytes | None
    """None if its provider got what the client sent."""
    answer: Message | None


@final
class _Row(Struct, array_like=True):
    record: RequestRecord
    title: str
    folder: str
    client: list[bytes]
    provider: list[bytes] | None
    answer: Message | None


@final
class ContentFile:
    """Used by one thread at a time. A file that fails is reported and left alone: the pages do without it."""

    def __init__(
        self,
        path: Path,
        key: InstallationKey,
        *,
        keep_seconds: float,
        max_bytes: int,
        clock: Callable[[], float] = time,
    ) -> None:
        self._path, self._key = path, key
        self._keep_seconds, self._max_bytes = keep_seconds, max_bytes
        self._clock = clock
        self._expire_at = 0.0
        self._opened: sqlite3.Connection | None = None

    def add(self, requests: Sequence[RequestOnDisk]) -> None:
        try:
            with writing(self._connection()) as connection:
                for one in requests:
                    self._add(connection, one)
                if self._clock() >= self._expire_at:
                    self._expire(connection)
        except (sqlite3.Error, OSError) as error:
            _LOG.error("What was said cannot be stored for the inspector: %s", error)

    def load(self, most: int) -> list[RequestOnDisk]:
        """Those of the conversations used last, about `most` bytes, the oldest first."""
        try:
            with writing(self._connection()) as connection:
                self._expire(connection)
            return self._load(self._connection(), most)
        except (sqlite3.Error, OSError) as error:
            _LOG.error("What was stored for the inspector cannot be read: %s", error)
            return []

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            settings = ("synchronous = NORMAL", "secure_delete = ON")
            self._opened = connect(self._path, patience=_PATIENCE, settings=settings)
            for statement in _SCHEMA:
                self._opened.execute(statement)
        return self._opened

    def _add(self, connection: sqlite3.Connection, one: RequestOnDisk) -> None:
        name = one.record.conversation
        asked = connection.execute("SELECT digest FROM pieces WHERE conversation = ?", (name,))
        known = {digest for (digest,) in asked}

        def digests(body: bytes) -> list[bytes]:
            found = []
            for _, piece in cut(body):
                digest = hashlib.blake2b(piece, digest_size=16).digest()
                found.append(digest)
                if digest not in known:
                    known.add(digest)
                    sealed = self._key.encrypt(piece, bound_to=_bound(name, digest))
                    connection.execute(
                        "INSERT OR IGNORE INTO pieces VALUES (?, ?, ?)", (name, digest, sealed)
                    )
            return found

        row = _Row(
            structs.replace(one.record, content=None),
            one.title,
            one.folder,
            digests(one.client),
            digests(one.provider) if one.provider is not None else None,
            one.answer,
        )
        body = self._key.encrypt(msgspec.msgpack.encode(row), bound_to=_bound(name, one.record.id.encode()))
        number = one.record.number
        connection.execute(
            "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)", (one.record.id, name, number, body)
        )
        connection.execute("INSERT OR REPLACE INTO conversations VALUES (?, ?)", (name, self._clock()))

    def _load(self, connection: sqlite3.Connection, most: int) -> list[RequestOnDisk]:
        chosen: list[str] = []
        for (name,) in connection.execute("SELECT id FROM conversations ORDER BY used DESC"):
            (size,) = connection.execute(
                "SELECT coalesce(sum(length(body)), 0) FROM pieces WHERE conversation = ?", (name,)
            ).fetchone()
            most -= size
            if most < 0:
                break
            chosen.append(name)
        return [one for name in reversed(chosen) for one in self._requests(connection, name)]

    def _requests(self, connection: sqlite3.Connection, name: str) -> Iterator[RequestOnDisk]:
        asked = connection.execute("SELECT digest, body FROM pieces WHERE conversation = ?", (name,))
        pieces = {digest: self._key.decrypt(body, bound_to=_bound(name, digest)) for digest, body in asked}

        def joined(digests: Sequence[bytes]) -> bytes | None:
            found = [piece for digest in digests if (piece := pieces.get(digest)) is not None]
            return b"".join(found) if len(found) == len(digests) else None

        asked = connection.execute(
            "SELECT id, body FROM requests WHERE conversation = ? ORDER BY number", (name,)
        )
        for number, body in asked:
            plain = self._key.decrypt(body, bound_to=_bound(name, number.encode()))
            try:
                row = msgspec.msgpack.decode(plain or b"", type=_Row)
            except msgspec.MsgspecError:  # of another version, or of another key
                continue
            client = joined(row.client)
            provider = joined(row.provider) if row.provider is not None else None
            if client is None or (row.provider is not None and provider is None):
                continue
            yield RequestOnDisk(
                record=row.record,
                title=row.title,
                folder=row.folder,
                client=client,
                provider=provider,
                answer=row.answer,
            )

    def _expire(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        self._expire_at = now + _EXPIRY_SECONDS
        old = connection.execute("SELECT id FROM conversations WHERE used < ?", (now - self._keep_seconds,))
        gone = [name for (name,) in old]
        asked = connection.execute(
            """SELECT id, (SELECT coalesce(sum(length(body)), 0) FROM pieces WHERE conversation = conversations.id)
            FROM conversations WHERE used >= ? ORDER BY used DESC""",
            (now - self._keep_seconds,),
        )
        left = self._max_bytes
        for name, size in asked:
            left -= size
            if left < 0:
                gone.append(name)
        for name in gone:
            for table, column in (
                ("pieces", "conversation"),
                ("requests", "conversation"),
                ("conversations", "id"),
            ):
                connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))  # noqa: S608 - names of ours


def _bound(conversation: str, name: bytes) -> bytes:
    """Nothing of one conversation can be put in the place of something of another."""
    return b"inspector\0" + conversation.encode() + b"\0" + name

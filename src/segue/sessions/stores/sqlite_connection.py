"""A connection to the SQLite file of sessions: durable, private to its owner, and migrated to the newest form."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from segue.sessions.listing import fold_text
from segue.sessions.stores.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE: Final = 20.0
"""Seconds to wait for another process's transaction; each takes milliseconds."""


def open_database(path: Path, patience: float = PATIENCE) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives its other files the same mode. Never a file that is there: to close it would let go of every lock
    # that this process has on it, and another process could take the log away under an open connection.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    # A list that shows a damaged letter is better than none.
    connection.text_factory = _as_text
    try:
        _use_wal(connection)
        for setting in (
            "synchronous = FULL",
            "fullfsync = ON",
            "foreign_keys = ON",
            "secure_delete = ON",
        ):
            connection.execute(f"PRAGMA {setting}")
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


def _use_wal(connection: sqlite3.Connection) -> None:
    # Two processes that make the same new file at once: this one statement does not wait for its turn.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A transaction that has the right to write from its first moment, so what it reads stays true until its end."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise

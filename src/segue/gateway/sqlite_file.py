"""A SQLite file that several gateways of one machine share: only its owner may read it, writes are whole or not there."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from segue.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PATIENCE: Final = 10.0
"""Seconds to wait for another process's transaction; each takes milliseconds."""


def open_database(path: Path, what: str, schema: Sequence[str], version: int) -> sqlite3.Connection:
    """`what` it holds, for errors; `schema`: the statements that make it, if it is new."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives its other files the same mode. Never a file that is there: to close it would let go of every lock
    # that this process has on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(connection)
        for setting in ("synchronous = NORMAL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")
        _create_tables(connection, schema, version)
        _check_version(connection, path, what, version)
    except BaseException:
        connection.close()
        raise
    return connection


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


def _create_tables(connection: sqlite3.Connection, schema: Sequence[str], version: int) -> None:
    if _version(connection) == 0:
        with transaction(connection):
            if _version(connection) == 0:  # another process may have made them meanwhile
                for statement in schema:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version}")


def _check_version(connection: sqlite3.Connection, path: Path, what: str, version: int) -> None:
    if (found := _version(connection)) > version:
        raise JournalError(
            f"{what} has form {found}; this segue knows forms up to {version}.",
            code="newer_store",
            path=str(path),
            hint="Nothing was changed. Run it with a newer segue, or set another gateway.memory.directory.",
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def failures_of(what: str, path: Path) -> Iterator[None]:
    """What SQLite and the disk raise, as an error that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise JournalError(
            f"{what} cannot be read or written: {error}.",
            code="store_failed",
            path=str(path),
            hint="Check the disk's free space and the file's permissions.",
        ) from error

"""SQLite, for sessions and the gateway alike: connections to files that several processes share, transactions, and steps from one
form of a file to the next.

A file is private to its owner, and has a log that readers need not wait for.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path


_TAKEN: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
"""Another process has the file."""

Step: TypeAlias = "tuple[int, Iterable[str]]"
"""A number, and the statements that lead to the form of that number."""


def connect(
    path: Path, *, patience: float, settings: Sequence[str], page_size: int = 4096
) -> sqlite3.Connection:
    """`patience`: seconds to wait for another process's transaction. `settings`: pragmas, each as `name = value`. `page_size`:
    of a new file, in bytes."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives its other files the same mode. Never a file that is there: to close it would let go of every lock
    # that this process has on it, and another process could take the log away under an open connection.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {page_size}")  # has an effect only before the log
        _use_wal(connection, patience)
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, patience: float) -> None:
    # Two processes that make the same new file at once: this one statement does not wait for its turn.
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # What no turn will change, such as a file that may only be read, would hold up whoever waits: a whole gateway.
            if error.sqlite_errorcode & 0xFF not in _TAKEN or time.monotonic() > deadline:
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


def take_steps(
    connection: sqlite3.Connection,
    steps_from: Callable[[int], Sequence[Step]],
    version: Callable[[sqlite3.Connection], int],
    record: Callable[[sqlite3.Connection, int], object],
) -> None:
    """Bring a file up to date, each step whole or not at all. `steps_from` gives those that are due at a version, `version` reads it,
    `record` writes it. Two processes may begin at once: each looks again once it has the right to write."""
    while steps_from(version(connection)):
        with writing(connection):
            for number, statements in steps_from(version(connection))[:1]:
                for statement in statements:
                    connection.execute(statement)
                record(connection, number)


def is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY

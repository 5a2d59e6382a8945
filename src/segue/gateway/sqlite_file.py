"""A SQLite file that several gateways of one machine share: read in the loop, written in a thread.

Writes are whole or not there. They wait for the operating system, not for the disk: a killed process loses nothing, and
a power cut at most the last moments.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from segue.errors import JournalError
from segue.sqlite_connections import connect, writing
from segue.worker_threads import Worker

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

_P = ParamSpec("_P")
_T = TypeVar("_T")

PATIENCE: Final = 10.0
"""Seconds to wait for another process's transaction; each takes milliseconds."""


class SharedFile:
    """Two connections, opened when they are needed. Not for network disks: they do not lock reliably."""

    def __init__(self, path: str | os.PathLike[str], what: str, schema: Sequence[str], version: int) -> None:
        """`what` it holds, for errors; `schema`: the statements that make a new one."""
        self._path = Path(path)
        self._what = what
        self._schema = schema
        self._version = version
        self._worker = Worker(f"segue-gateway-{self._path.stem}")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection of the loop. What SQLite and the disk raise becomes an error that names the file."""
        with self._failures():
            if self._reader is None:
                self._reader = self._open()
            yield self._reader

    async def run(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do something in the thread."""
        with self._failures():
            return await self._worker.run(do, *args, **kwargs)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction. In the thread only."""
        with writing(self.writer) as connection:
            yield connection

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection of the thread."""
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    async def close(self, before: Callable[[], None] | None = None) -> None:
        """`before` is called in the thread, if anything was ever written."""
        await self._worker.close(lambda: self._close_writer(before))
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _close_writer(self, before: Callable[[], None] | None) -> None:
        if self._writer is not None:
            if before is not None:
                before()
            self._writer.close()
            self._writer = None

    def _open(self) -> sqlite3.Connection:
        connection = connect(
            self._path, patience=PATIENCE, settings=("synchronous = NORMAL", "foreign_keys = ON")
        )
        try:
            self._create_tables(connection)
            self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        if _version(connection) == 0:
            with writing(connection):
                if _version(connection) == 0:  # another process may have made them meanwhile
                    for statement in self._schema:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {self._version}")

    def _check_version(self, connection: sqlite3.Connection) -> None:
        if (found := _version(connection)) > self._version:
            raise JournalError(
                f"{self._what} has form {found}; this segue knows forms up to {self._version}.",
                code="newer_store",
                path=str(self._path),
                hint="Nothing was changed. Run it with a newer segue, or set another gateway.memory.directory.",
            )

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise JournalError(
                f"{self._what} cannot be read or written: {error}.",
                code="store_failed",
                path=str(self._path),
                hint="Check the disk's free space and the file's permissions.",
            ) from error


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])

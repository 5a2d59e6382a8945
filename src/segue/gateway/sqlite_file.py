"""A SQLite file that several gateways of one machine share: read in the loop, written in a thread or, if small, in the loop.

Writes are whole or not there. They wait for the operating system, not for the disk: a killed process loses nothing, and
a power cut at most the last moments.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from segue.errors import JournalError
from segue.sqlite_connections import connect, writing
from segue.worker_threads import Worker

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

_P = ParamSpec("_P")
_T = TypeVar("_T")

PATIENCE: Final = 10.0
"""Seconds to wait for another process's transaction; each takes milliseconds."""
_PAUSES: Final = (0.0, *[0.001] * 4, *[0.003] * 300)
"""Seconds between attempts at a small write. SQLite itself would wait for up to 100 ms at a time, and longer under load."""
_CHECKPOINT_AFTER: Final = 1_000_000
"""Small writes, times the bytes of a page: their log has ten megabytes by then."""


class SharedFile:
    """Connections that are opened when they are needed. Not for network disks: they do not lock reliably."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        what: str,
        schema: Sequence[str],
        version: int,
        *,
        page_size: int,
        upgrades: Mapping[int, Sequence[str]] | None = None,
    ) -> None:
        """`what` it holds, for errors; `schema`: the statements that make a new one; `upgrades`: those that lead from an older
        version to the next. `page_size`: a transaction writes whole pages, so small ones for small rows."""
        self._path = Path(path)
        self._what = what
        self._schema = schema
        self._version = version
        self._upgrades = upgrades or {}
        self._page_size = page_size
        self._worker = Worker(f"segue-gateway-{self._path.stem}")
        self._writer: sqlite3.Connection | None = None
        self._direct: sqlite3.Connection | None = None
        self._patient: sqlite3.Connection | None = None
        self._direct_lock = Lock()  # several loops may share the file
        self._small_writes = 0
        self._is_closed = False
        self._checkpoint: asyncio.Task[None] | None = None

    def read(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        """In the loop, by the connection that writes there: it has at hand what it wrote, where another one would read that
        from the file again."""
        try:
            try:
                with self._direct_lock:
                    return do(self._direct_connection())
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
            # Another process puts the file in order after a crash: the only time that a reader has to wait.
            if self._patient is None:
                self._patient = self._open()
            return do(self._patient)
        except (sqlite3.Error, OSError) as error:
            raise self._failure(error) from error

    async def run(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do something in the thread."""
        try:
            return await self._worker.run(do, *args, **kwargs)
        except (sqlite3.Error, OSError) as error:
            raise self._failure(error) from error

    async def write(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        """A transaction, in the thread."""
        return await self.run(self._write, do)

    def write_at_once(self, do: Callable[[sqlite3.Connection], None]) -> bool:
        """A transaction of some ten microseconds, in the loop; False if somebody else is writing, and nothing was done."""
        return self._try_at_once(do) is not None

    async def write_small(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        """The same as soon as nobody else is writing. To have it done by the thread takes several times as long, so that is
        for a file which somebody else writes for long."""
        for pause in _PAUSES:
            if (done := self._try_at_once(do)) is not None:
                return done[0]
            await asyncio.sleep(pause)
        return await self.write(do)

    def _try_at_once(self, do: Callable[[sqlite3.Connection], _T]) -> tuple[_T] | None:
        """Its result; None if somebody else is writing."""
        if self._is_closed or not self._direct_lock.acquire(blocking=False):
            return None
        try:
            connection = self._direct_connection()
            connection.execute("BEGIN IMMEDIATE")
            result = do(connection)
            connection.execute("COMMIT")
        except BaseException as error:
            if self._direct is not None and self._direct.in_transaction:
                self._direct.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError) and _is_busy(error):
                return None
            if isinstance(error, sqlite3.Error | OSError):
                raise self._failure(error) from error
            raise
        finally:
            self._direct_lock.release()
        self._small_writes += 1
        full = self._small_writes * self._page_size >= _CHECKPOINT_AFTER
        if full and (self._checkpoint is None or self._checkpoint.done()):
            self._small_writes = 0
            self._checkpoint = asyncio.ensure_future(self._move_log_later())
        return (result,)

    def _direct_connection(self) -> sqlite3.Connection:
        """It never waits, neither for a lock nor for the disk: to move the log into the file is the thread's work."""
        if self._direct is None:
            self._direct = self._open("busy_timeout = 0", "wal_autocheckpoint = 0")
        return self._direct

    async def _move_log_later(self) -> None:
        if not self._is_closed:
            await self._worker.run(self._move_log)

    def _write(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        with self.writing() as connection:
            return do(connection)

    def _move_log(self) -> None:
        """Into the file, which waits for the disk: first most of it, while others write, then all. The first write after that
        waits for the disk too. It is made here, and changes nothing."""
        with suppress(sqlite3.Error):  # the log only grows, and the next write reports what is wrong
            self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self.writer.execute("PRAGMA wal_checkpoint(RESTART)")
            with self.writing() as connection:
                connection.execute(f"PRAGMA user_version = {_version(connection)}")

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
        self._is_closed = True
        await self._worker.close(lambda: self._close_writer(before))
        for connection in (self._direct, self._patient):
            if connection is not None:
                connection.close()
        self._direct = self._patient = None

    def _close_writer(self, before: Callable[[], None] | None) -> None:
        if self._writer is not None:
            if before is not None:
                before()
            self._writer.close()
            self._writer = None

    def _open(self, *settings: str) -> sqlite3.Connection:
        connection = connect(
            self._path,
            patience=PATIENCE,
            settings=("synchronous = NORMAL", "foreign_keys = ON"),
            page_size=self._page_size,
        )
        try:
            self._create_tables(connection)
            self._check_version(connection)
            for setting in settings:
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        if _version(connection) < self._version:
            with writing(connection):
                found = _version(connection)  # another process may have made them meanwhile
                for statement in self._schema if found == 0 else self._steps_from(found):
                    connection.execute(statement)
                if found < self._version:
                    connection.execute(f"PRAGMA user_version = {self._version}")

    def _steps_from(self, found: int) -> list[str]:
        return [statement for number in range(found, self._version) for statement in self._upgrades[number]]

    def _check_version(self, connection: sqlite3.Connection) -> None:
        if (found := _version(connection)) > self._version:
            raise JournalError(
                f"{self._what} has form {found}; this segue knows forms up to {self._version}.",
                code="newer_store",
                path=str(self._path),
                hint="Nothing was changed. Run it with a newer segue, or set another gateway.memory.directory.",
            )

    def _failure(self, error: Exception) -> JournalError:
        return JournalError(
            f"{self._what} cannot be read or written: {error}.",
            code="store_failed",
            path=str(self._path),
            hint="Check the disk's free space and the file's permissions.",
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY

"""A SQLite file that several gateways of one machine share: read in the loop, written in a thread or, if small, in the loop.

Writes are whole or not there. They wait for the operating system, not for the disk: a killed process loses nothing, and
a power cut at most the last moments. Nobody waits for the file longer than the patience, whether another process has locked it or
its disk is slow; the loop itself never waits for a lock.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar
from weakref import finalize

from segue.circuit import Circuit
from segue.databases.sqlite import connect, is_busy, take_steps, writing
from segue.errors import JournalError, StoreUnreachableError
from segue.system.worker_threads import Worker

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from segue.databases.sqlite import Step

_P = ParamSpec("_P")
_T = TypeVar("_T")

PATIENCE: Final = 1.0
"""Seconds to wait for another process's transaction; each takes milliseconds."""
_OPENING_SECONDS: Final = 10.0
"""For the first answer at least: after a crash the file has to be put in order."""
_PAUSES: Final = (0.0, *[0.001] * 4, *[0.003] * 300)
"""Seconds between attempts at a small write. SQLite itself would wait for up to 100 ms at a time, and longer under load."""
_SLOW_SECONDS: Final = 0.25
"""What takes longer in the loop, holds up everybody: it is the disk."""
_SLOW_FOR: Final = 30.0
"""Seconds for which all is left to the thread after that."""
_LATE_SECONDS: Final = 60.0
"""For which the thread waits to write what nobody waits for any more."""
_MOST_WAITING: Final = 500
"""Things that wait for the thread; each may hold a reply."""
_CLOSE_SECONDS: Final = 10.0
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
        patience: float = PATIENCE,
    ) -> None:
        """`what` it holds, for errors; `schema`: the statements that make a new one; `upgrades`: those that lead from an older
        version to the next. `page_size`: a transaction writes whole pages, so small ones for small rows."""
        self._path = Path(path)
        self._what = what
        self._schema = schema
        self._version = version
        self._upgrades = upgrades or {}
        self._page_size = page_size
        self._patience = patience
        self._worker = Worker(f"segue-gateway-{self._path.stem}")
        self._writer: sqlite3.Connection | None = None
        self._direct: sqlite3.Connection | None = None
        """It never waits, neither for a lock nor for the disk: to move the log into the file is the thread's work."""
        self._direct_lock = Lock()  # several loops may share the file
        self._circuit = Circuit(patience)
        self._slow_until = 0.0
        self._small_writes = 0
        self._is_closed = False
        self._checkpoint: asyncio.Task[None] | None = None
        self._groups: dict[
            asyncio.AbstractEventLoop,
            list[tuple[Callable[[sqlite3.Connection], None], asyncio.Future[bool]]],
        ] = {}
        """What is to be written together, and who waits for it."""

    async def read(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        """In the loop, by the connection that writes there: it has at hand what it wrote, where another one would read that
        from the file again."""
        await self._open_direct()
        if (done := self._at_once(do)) is not None:
            return done[0]
        # Another process puts the file in order after a crash, or keeps it to itself; or the disk is slow.
        return await self.run(lambda: do(self.writer))

    async def run(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do something in the thread, unless nobody waits for it any more when its turn comes."""
        seconds = self._most_seconds()
        began = self._circuit.enter(seconds)
        return await self._in_thread(began, began + seconds, began + seconds, lambda: do(*args, **kwargs))

    async def write(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        """A transaction, in the thread."""
        return await self.run(self._write, do)

    async def write_late(self, do: Callable[[sqlite3.Connection], object]) -> None:
        """The same for what should be written even if nobody could wait for it. Raises when that is so."""
        seconds = self._most_seconds()
        try:
            began = self._circuit.enter(seconds)
        except StoreUnreachableError:
            # What is cancelled is the waiting alone.
            self._submit(math.inf, lambda: self._write_patiently(do)).cancel()
            raise
        await self._in_thread(began, began + seconds, math.inf, lambda: self._write_patiently(do))

    async def check(self) -> None:
        """Raises JournalError if the file cannot be written."""
        await self.write_small(_write_nothing_new)

    def write_at_once(self, do: Callable[[sqlite3.Connection], None]) -> bool:
        """A transaction of some ten microseconds, in the loop; False if somebody else is writing, and nothing was done."""
        return self._try_at_once(do) is not None

    async def write_together(self, do: Callable[[sqlite3.Connection], None]) -> bool:
        """The same in one transaction with all that is written so in this turn of the loop: a commit costs more than what is in it.
        Under load several replies end at the same moment."""
        loop = asyncio.get_running_loop()
        group = self._groups.setdefault(loop, [])
        if not group:
            loop.call_soon(self._write_group, loop)
        written: asyncio.Future[bool] = loop.create_future()
        group.append((do, written))
        return await written

    def _write_group(self, loop: asyncio.AbstractEventLoop) -> None:
        group = self._groups.pop(loop)

        def do_all(connection: sqlite3.Connection) -> None:
            for do, _ in group:
                do(connection)

        together = False
        if len(group) > 1:
            with suppress(JournalError):  # if one of them cannot be written, each is tried alone
                together = self.write_at_once(do_all)
        for do, written in group:
            try:
                done = together or self.write_at_once(do)
            except JournalError as error:
                if not written.done():
                    written.set_exception(error)
                continue
            if not written.done():
                written.set_result(done)
            elif not done:  # nobody waits for it any more; it is written all the same
                self._submit(math.inf, partial(self._write_patiently, do)).cancel()

    async def write_small(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        """The same as soon as nobody else is writing. To have it done by the thread takes several times as long, so that is
        for a file which somebody else writes for long."""
        await self._open_direct()
        if (done := self._try_at_once(do)) is not None:
            return done[0]
        began = self._circuit.enter(self._patience)
        deadline = began + self._patience
        for pause in _PAUSES:
            if self._is_slow() or monotonic() + pause >= deadline:
                break
            await asyncio.sleep(pause)
            if (done := self._try_at_once(do)) is not None:
                return done[0]
        return await self._in_thread(began, deadline, deadline, lambda: self._write(do))

    def _most_seconds(self) -> float:
        """That a caller waits."""
        return self._patience if self._direct is not None else max(self._patience, _OPENING_SECONDS)

    async def _open_direct(self) -> None:
        """In the thread: to open a file may take long."""
        if self._direct is None and not self._is_closed:
            await self.run(self._make_direct)

    def _make_direct(self) -> None:
        with self._direct_lock:
            if self._direct is None:
                self._direct = self._open("busy_timeout = 0", "wal_autocheckpoint = 0")

    def _submit(self, latest: float, do: Callable[[], _T]) -> asyncio.Future[_T]:
        if self._worker.unfinished >= _MOST_WAITING:
            raise self._silent(self._patience)
        return self._worker.submit(self._perform, do, latest)

    async def _in_thread(self, began: float, deadline: float, latest: float, do: Callable[[], _T]) -> _T:
        """`deadline`: until when somebody waits for it; `latest`: when it may begin."""
        try:
            done = self._submit(latest, do)
            try:
                await asyncio.wait([done], timeout=deadline - monotonic())
                if not done.done():
                    raise self._silent(deadline - began)
                result = done.result()
            except (sqlite3.Error, OSError) as error:
                raise self._failure(error) from error
            finally:
                done.cancel()
        except StoreUnreachableError as error:
            self._circuit.failed(began, error)
            raise
        self._circuit.answered()
        return result

    def _perform(self, do: Callable[[], _T], latest: float) -> _T:
        """In the thread."""
        if monotonic() >= latest:
            raise self._silent(self._patience)
        return do()

    def _at_once(self, do: Callable[[sqlite3.Connection], _T]) -> tuple[_T] | None:
        """Its result; None if it would have to wait."""
        if self._is_slow() or not self._direct_lock.acquire(blocking=False):
            return None
        began = monotonic()
        try:
            if self._direct is None:
                return None
            result = do(self._direct)
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.OperationalError) and is_busy(error):
                return None
            raise self._failure(error) from error
        finally:
            self._direct_lock.release()
            if monotonic() - began > _SLOW_SECONDS:
                self._slow_until = monotonic() + _SLOW_FOR
        return (result,)

    def _is_slow(self) -> bool:
        return monotonic() < self._slow_until

    def _try_at_once(self, do: Callable[[sqlite3.Connection], _T]) -> tuple[_T] | None:
        """Its result; None if somebody else is writing."""
        done = None if self._is_closed else self._at_once(lambda connection: _transaction(connection, do))
        if done is None:
            return None
        self._circuit.answered()
        self._small_writes += 1
        full = self._small_writes * self._page_size >= _CHECKPOINT_AFTER
        if full and (self._checkpoint is None or self._checkpoint.done()):
            self._small_writes = 0
            self._checkpoint = asyncio.ensure_future(self._move_log_later())
        return done

    async def _move_log_later(self) -> None:
        if not self._is_closed:
            await self._worker.run(self._move_log)

    def _write(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        with self.writing() as connection:
            return do(connection)

    def _write_patiently(self, do: Callable[[sqlite3.Connection], object]) -> None:
        self.writer.execute(f"PRAGMA busy_timeout = {_LATE_SECONDS * 1000:.0f}")
        try:
            self._write(do)
        finally:
            self.writer.execute(f"PRAGMA busy_timeout = {self._patience * 1000:.0f}")

    def _move_log(self) -> None:
        """Into the file, which waits for the disk: first most of it, while others write, then all. The first write after that
        waits for the disk too. It is made here, and changes nothing."""
        with suppress(sqlite3.Error):  # the log only grows, and the next write reports what is wrong
            self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self.writer.execute("PRAGMA wal_checkpoint(RESTART)")
            with self.writing() as connection:
                _write_nothing_new(connection)

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
        await self._worker.close(lambda: self._close_writer(before), _CLOSE_SECONDS)
        with self._direct_lock:
            if self._direct is not None:
                self._direct.close()
            self._direct = None

    def _close_writer(self, before: Callable[[], None] | None) -> None:
        if self._writer is not None:
            try:
                if before is not None:
                    before()
            finally:
                self._writer.close()
                self._writer = None

    def _connect(self) -> sqlite3.Connection:
        settings = ("synchronous = NORMAL", "foreign_keys = ON")
        return connect(self._path, patience=self._patience, settings=settings, page_size=self._page_size)

    def _open(self, *settings: str) -> sqlite3.Connection:
        connection = self._connect()
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
        take_steps(connection, self._steps_from, _version, _set_version)

    def _steps_from(self, version: int) -> list[Step]:
        if version == 0:
            return [(self._version, self._schema)]
        return [(number + 1, self._upgrades[number]) for number in range(version, self._version)]

    def _check_version(self, connection: sqlite3.Connection) -> None:
        if (found := _version(connection)) > self._version:
            raise JournalError(
                f"{self._what} has form {found}; this segue knows forms up to {self._version}.",
                code="newer_store",
                path=str(self._path),
                hint="Nothing was changed. Run it with a newer segue, or set another gateway.memory.directory.",
            )

    def _failure(self, error: Exception) -> JournalError:
        if isinstance(error, sqlite3.OperationalError) and is_busy(error):
            return self._silent(self._patience)
        return JournalError(
            f"{self._what} cannot be read or written: {error}.",
            code="store_failed",
            path=str(self._path),
            hint="Check the disk's free space and the file's permissions.",
        )

    def _silent(self, seconds: float) -> StoreUnreachableError:
        return StoreUnreachableError(
            f"{self._what} could not be used within {seconds:.2g} s.",
            path=str(self._path),
            hint="Another program has locked the file, or its disk is slow.",
        )


class VolatileFile(SharedFile):
    """The same in this process alone, for those who want nothing on the disk: one connection, and nothing to wait for."""

    async def read(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        return await self.run(lambda: do(self.writer))

    async def run(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self._direct_lock:
            return do(*args, **kwargs)

    async def write_late(self, do: Callable[[sqlite3.Connection], object]) -> None:
        await self.write(do)

    async def write_small(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        return await self.write(do)

    def write_at_once(self, do: Callable[[sqlite3.Connection], None]) -> bool:
        with self._direct_lock:
            self._write(do)
        return True

    async def close(self, before: Callable[[], None] | None = None) -> None:
        """Nothing is forgotten: the gateway that replaces this one may go on with it."""

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys = ON")
        finalize(self, connection.close)
        return connection


def _transaction(connection: sqlite3.Connection, do: Callable[[sqlite3.Connection], _T]) -> _T:
    with writing(connection):
        return do(connection)


def _write_nothing_new(connection: sqlite3.Connection) -> None:
    """A write all the same: a transaction without one needs no disk."""
    _set_version(connection, _version(connection))


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _set_version(connection: sqlite3.Connection, number: int) -> None:
    connection.execute(f"PRAGMA user_version = {number}")

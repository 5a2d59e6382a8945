"""One database, used by many tasks: a few threads with a connection each, opened when they are needed, and
connections of the loop.

A connection that is lost is opened again, for as long as `patience` allows, and what ran on it is asked for again: so
a database that restarts is a pause and no error. Callers make sure that doing something twice does it once. A
database that hangs is found out too: one that is silent for as long as the patience counts as lost.

A function in the database is called without a thread, on a connection of the loop, at half of its cost. What goes
wrong there is not handled there: the connection is closed, and whoever called does it again in a thread. A call that
has no answer when its time is over has gone wrong.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakValueDictionary

import psycopg
from psycopg.conninfo import conninfo_to_dict

from segue.circuit import Circuit
from segue.databases.postgres import errors
from segue.databases.postgres.address import DatabaseAddress, bad_url, read_address
from segue.databases.postgres.connection import (
    DatabaseConnection,
    DriverConnection,
    SilenceError,
    read_rows,
)
from segue.databases.postgres.migrations import Migration, migrate
from segue.errors import JournalError, StoreUnreachableError, is_transient
from segue.system.worker_threads import Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from psycopg import pq

    from segue.databases.postgres.connection import (
        Fields,
        PackedArray,
        Value,
    )


_CLOSE_SECONDS: Final = 10.0


class LoopConnections:
    """At most so many at a time, opened when all others are busy. Of one loop: others get nothing here."""

    def __init__(
        self,
        open_connection: Callable[[float], Awaitable[DatabaseConnection]],
        abandon: Callable[[DriverConnection, float], None],
        *,
        most: int,
    ) -> None:
        """`open_connection` is told until when somebody waits for it, `abandon` since when a call has no answer."""
        self._open_connection = open_connection
        self.abandon = abandon
        self._most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = asyncio.Semaphore(most)
        """Taken while a connection is busy or being opened, which may be longer than somebody waits for it."""
        self._idle: list[_LoopConnection] = []
        self._all: set[_LoopConnection] = set()

    def may_call(self) -> bool:
        """Whether the running loop has connections here. The first loop that asks has them until it is closed."""
        loop = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._forget()
            self._loop = loop
        return self._loop is loop and self._most > 0

    async def call(
        self, function: str, values: tuple[Value | PackedArray, ...], deadline: float = math.inf
    ) -> Fields:
        """Raises psycopg.Error."""
        await self._take_turn(deadline)
        while not self._idle:
            # Open for others too if whoever waits is cancelled.
            opening = asyncio.ensure_future(self._open(deadline))
            done, _ = await asyncio.wait([opening], timeout=_left(deadline))
            opening.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
            if not done:
                raise SilenceError("no connection could be opened in time")
            opening.result()
            await self._take_turn(deadline)
        return await self._idle.pop().call(function, values, deadline)

    async def _take_turn(self, deadline: float) -> None:
        if not self._turns.locked():
            await self._turns.acquire()
            return
        try:
            async with asyncio.timeout(_left(deadline)):
                await self._turns.acquire()
        except TimeoutError:
            raise SilenceError("all connections are busy") from None

    async def _open(self, deadline: float) -> None:
        try:
            opened = _LoopConnection(await self._open_connection(deadline), self)
        except NotImplementedError:  # a loop that watches no sockets
            self._most = 0
            raise psycopg.InterfaceError("this loop watches no sockets") from None
        else:
            self._all.add(opened)
            self._idle.append(opened)
        finally:
            self._turns.release()

    def free(self, connection: _LoopConnection) -> None:
        self._idle.append(connection)
        self._turns.release()

    def drop(self, connection: _LoopConnection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        else:
            self._turns.release()

    async def close(self) -> None:
        """When what was asked for is done."""
        if self._loop is asyncio.get_running_loop():
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    for _ in range(self._most):
                        await self._turns.acquire()
            for each in list(self._all):
                each.close()
        self._forget()

    def _forget(self) -> None:
        for each in self._all:
            each.driver.close()
        self._all.clear()
        self._idle.clear()
        self._turns = asyncio.Semaphore(self._most)


def _left(deadline: float) -> float | None:
    return None if deadline == math.inf else max(0.0, deadline - monotonic())


class _LoopConnection:
    """One call at a time."""

    def __init__(self, connection: DatabaseConnection, pool: LoopConnections) -> None:
        self.driver = connection.driver
        self.result: asyncio.Future[pq.abc.PGresult] | None = None
        self._connection = connection
        self._low = connection.driver.pgconn
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._low.nonblocking = 1
        self._socket = self._low.socket
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._loop.add_reader(self._socket, self._read)
        except BaseException:
            self.driver.close()
            raise

    async def call(self, function: str, values: tuple[Value | PackedArray, ...], deadline: float) -> Fields:
        self.result = self._loop.create_future()
        if deadline != math.inf:
            began = monotonic()
            self._timer = self._loop.call_later(deadline - began, self._expire, began)
        try:
            self._connection.send_call(function, values)
            self._flush()
        except psycopg.Error:
            self._lose(None)
            raise
        return read_rows(await self.result)  # if whoever waits is cancelled, the answer is read all the same

    def _flush(self) -> None:
        if self._low.flush():
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._socket, self._write)
        elif self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket)

    def _write(self) -> None:
        try:
            self._flush()
        except psycopg.Error as error:
            self._lose(error)

    def _read(self) -> None:
        try:
            self._low.consume_input()
            if self._is_writing:
                self._flush()
            if self.result is None or self._low.is_busy():
                return
            last = None
            while (result := self._low.get_result()) is not None:
                last = result
        except psycopg.Error as error:
            self._lose(error)
            return
        if last is None:
            self._lose(psycopg.OperationalError("the connection gave no result"))
            return
        waiting, self.result = self.result, None
        self._end_timer()
        if not waiting.done():
            waiting.set_result(last)
        self._pool.free(self)

    def _expire(self, began: float) -> None:
        """What has arrived in time was read before this, be the loop ever so late."""
        self._timer = None
        self._unwatch()
        self._pool.abandon(self.driver, began)
        self._forget(SilenceError("it took too long to answer"))

    def _lose(self, error: psycopg.Error | None) -> None:
        self.close()
        self._forget(error)

    def _forget(self, error: psycopg.Error | None) -> None:
        waiting, self.result = self.result, None
        self._pool.drop(self)
        if waiting is not None and not waiting.done():
            if error is None:
                waiting.cancel()
            else:
                waiting.set_exception(error)
                waiting.exception()  # whoever waited may have been cancelled

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unwatch(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)

    def close(self) -> None:
        self._end_timer()
        self._unwatch()
        self.driver.close()


T = TypeVar("T")

PATIENCE: Final = 20.0
"""Seconds in which a database that was there a moment ago may come back."""
_IN_THREADS: Final = 2
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5
_CONNECT_SECONDS: Final = 10.0
_SHORTEST_CONNECT: Final = 2
"""Of the driver."""
_OPENING_SECONDS: Final = 10.0
"""For the first answer at least: the tables may have to be made first."""
_MIGRATION_SECONDS: Final = 3600.0
"""Of silence: nodes wait for the one that changes large tables."""
_CANCEL_SECONDS: Final = 1.0
# Found out by the client's own operating system: a pooler sees nothing of it.
_KEEPALIVE: Final[dict[str, Any]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


_CIRCUITS: Final = WeakValueDictionary[tuple[str, float], Circuit]()
"""Those who use the same database in this process find out together that it does not answer."""


class Database:
    """Runs functions on connections. Nothing is opened before the first."""

    def __init__(
        self,
        url: str,
        *,
        part: str,
        steps: Sequence[Migration],
        patience: float = PATIENCE,
        rest: float = 0.0,
        on_open: Callable[[DatabaseConnection], None] | None = None,
        in_loop: bool = False,
    ) -> None:
        """`rest`: for so many seconds after it did not answer, nobody waits for it; and nobody ever waits longer than the patience,
        whatever is slow. `on_open` is called once, before all others. `in_loop`: most connections are for `call`, which then
        needs no thread."""
        self.address: DatabaseAddress = read_address(url)
        try:
            conninfo_to_dict(self.address.url)
        except psycopg.ProgrammingError:
            raise bad_url("the driver cannot read it") from None  # its words repeat parts of the URL
        self._part = part
        self._steps = steps
        self._patience = patience
        self._rest = rest
        self._on_open = on_open
        self._circuit = _CIRCUITS.setdefault((self.address.url, rest), Circuit(rest))
        in_threads = min(self.address.connections, _IN_THREADS if in_loop else self.address.connections)
        self._worker = Worker("segue-postgres", threads=in_threads)
        self._in_loop = LoopConnections(
            lambda deadline: self._worker.submit(self._open, deadline),
            self._abandon_later,
            most=self.address.connections - in_threads,
        )
        self._own = threading.local()
        self._opening = threading.Lock()
        self._is_checked = False
        self._was_there = False

    def __repr__(self) -> str:
        return f"Database({self.address.shown!r})"

    async def run(self, do: Callable[[DatabaseConnection], T]) -> T:
        """What `do` returns. It is called again after a lost connection, with `retried` set."""
        seconds = self._most_seconds()
        began = self._circuit.enter(seconds)
        return await self._in_thread(do, began, began + seconds)

    async def call(self, function: str, *values: Value | PackedArray) -> Fields:
        """The rows that a function of our schema returns. It may be called again after a lost connection."""
        seconds = self._most_seconds()
        began = self._circuit.enter(seconds)
        if self._was_there and self._in_loop.may_call():
            try:
                rows = await self._in_loop.call(function, values, began + seconds)
            except psycopg.Error:
                pass  # the thread finds out whether it matters, and has the patience
            else:
                self._circuit.answered()
                return rows
        return await self._in_thread(
            lambda connection: connection.call(function, *values), began, began + seconds
        )

    async def check(self) -> None:
        """Raises JournalError if it does not answer."""
        await self.run(lambda connection: connection.fetch("SELECT 1"))

    async def close(self) -> None:
        await self._in_loop.close()
        await self._worker.close(self._drop, _CLOSE_SECONDS)

    def _most_seconds(self) -> float:
        """That a caller waits."""
        if not self._rest:
            return math.inf
        return self._patience if self._is_checked else max(self._patience, _OPENING_SECONDS)

    async def _in_thread(self, do: Callable[[DatabaseConnection], T], began: float, deadline: float) -> T:
        done = self._worker.submit(self._perform, do, began, deadline)
        try:
            # The answer may be here though the loop was late: asked for the time alone, it would count as missing.
            await asyncio.wait([done], timeout=None if deadline == math.inf else deadline - time.monotonic())
            if not done.done():
                raise errors.silent(deadline - began, self.address)
            result = done.result()
        except StoreUnreachableError as error:
            self._circuit.failed(began, error)
            raise
        except JournalError:
            self._circuit.answered()
            raise
        finally:
            done.cancel()
        self._circuit.answered()
        return result

    # Everything below runs in one of the threads.

    def _perform(self, do: Callable[[DatabaseConnection], T], asked: float, latest: float) -> T:
        """Nothing is begun after `latest`: by then its caller does not wait for it."""
        began = time.monotonic()
        deadline = min(began + self._patience, latest)
        pause = _FIRST_PAUSE
        lost = False
        while True:
            if time.monotonic() >= latest:
                raise errors.silent(latest - asked, self.address)
            try:
                connection = self._connection(latest)
                if time.monotonic() >= latest:
                    continue
                connection.retried = lost
                return do(connection)
            except psycopg.Error as error:
                if isinstance(error, SilenceError):
                    self._abandon(began)
                if errors.is_lost(error):
                    self._drop()
                    lost = True
                failure = errors.failure(error, self.address)
                may_come_back = self._was_there or errors.is_starting(error)
                if not is_transient(failure) and not errors.is_worth_repeating(error):
                    raise failure from None
                if not may_come_back or time.monotonic() + pause > deadline:
                    raise failure from None
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that not all come at once
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _connection(self, latest: float) -> DatabaseConnection:
        held: DatabaseConnection | None = getattr(self._own, "connection", None)
        if held is None or held.driver.closed:
            held = self._own.connection = self._open(latest)
        return held

    def _open(self, latest: float) -> DatabaseConnection:
        if time.monotonic() >= latest:
            raise SilenceError("the time for it is over")
        driver = DriverConnection.connect(
            self.address.url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=max(_SHORTEST_CONNECT, math.ceil(min(self._patience, _CONNECT_SECONDS))),
            application_name="segue",
            client_encoding="utf8",
            **_KEEPALIVE,
        )
        self._was_there = True
        try:
            connection = DatabaseConnection(driver, self.address.schema)
            with self._opening:
                if not self._is_checked:
                    driver.silence = _MIGRATION_SECONDS
                    self._check(connection)
                    self._is_checked = True
            driver.silence = self._patience
        except BaseException:
            driver.close()
            raise
        return connection

    def _check(self, connection: DatabaseConnection) -> None:
        info = connection.driver.info
        if info.server_version < errors.OLDEST * 10_000:
            raise errors.old_server(info.server_version, self.address)
        encoding = info.parameter_status("server_encoding") or "UTF8"
        if encoding != "UTF8":
            raise errors.wrong_encoding(encoding, self.address)
        migrate(connection, self.address, self._part, self._steps)
        if self._on_open is not None:
            self._on_open(connection)

    def _drop(self) -> None:
        held: DatabaseConnection | None = getattr(self._own, "connection", None)
        self._own.connection = None
        if held is not None:
            held.driver.close()

    def _abandon(self, began: float) -> None:
        """What runs on the connection of this thread since then takes too long."""
        held: DatabaseConnection | None = getattr(self._own, "connection", None)
        if held is not None:
            self._abandon_driver(held.driver, began)

    def _abandon_later(self, driver: DriverConnection, began: float) -> None:
        """The same in the loop, which must not wait for it."""
        if self._circuit.has_answered_since(began):
            self._worker.submit(self._abandon_driver, driver, began).add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )
        else:
            driver.close()

    def _abandon_driver(self, driver: DriverConnection, began: float) -> None:
        """A database that answers others would go on with it, or wait for a lock, as one connection more each time."""
        if self._circuit.has_answered_since(began) and psycopg.capabilities.has_cancel_safe():
            with suppress(psycopg.Error):
                driver.cancel_safe(timeout=_CANCEL_SECONDS)
        driver.close()

"""Connections of an event loop: a call of a function in the database without a thread, at half of its cost.

What goes wrong here is not handled here: the connection is closed, and whoever called does it again in a thread. A call that has
no answer when its time is over has gone wrong.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

import psycopg

from segue.databases.postgres.connection import SilenceError, read_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg import pq

    from segue.databases.postgres.connection import (
        DatabaseConnection,
        DriverConnection,
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

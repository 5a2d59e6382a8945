"""One database, used by many tasks: a few threads with a connection each, opened when they are needed.

A connection that is lost is opened again, for as long as `patience` allows, and what ran on it is asked for again: so a
database that restarts is a pause and no error. Callers make sure that doing something twice does it once.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from segue.errors import is_transient
from segue.postgres import errors
from segue.postgres.address import DatabaseAddress, bad_url, read_address
from segue.postgres.connection import DatabaseConnection
from segue.postgres.loop_connections import LoopConnections
from segue.postgres.migrations import Migration, migrate
from segue.worker_threads import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.errors import JournalError
    from segue.postgres.connection import Fields, PackedArray, Value

T = TypeVar("T")

PATIENCE: Final = 20.0
"""Seconds in which a database that was there a moment ago may come back."""
_IN_THREADS: Final = 2
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5
_CONNECT_SECONDS: Final = 10
# Found out by the client's own operating system: a pooler sees nothing of it.
_KEEPALIVE: Final[dict[str, Any]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


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
        """`rest`: for so many seconds after it did not answer, nobody waits for it. `on_open` is called once, before all
        others. `in_loop`: most connections are for `call`, which then needs no thread."""
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
        self._resting: tuple[float, JournalError] | None = None
        in_threads = min(self.address.connections, _IN_THREADS if in_loop else self.address.connections)
        self._worker = Worker("segue-postgres", threads=in_threads)
        self._in_loop = LoopConnections(
            lambda: self._worker.run(self._open), most=self.address.connections - in_threads
        )
        self._own = threading.local()
        self._opening = threading.Lock()
        self._is_checked = False
        self._was_there = False

    def __repr__(self) -> str:
        return f"Database({self.address.shown!r})"

    async def run(self, do: Callable[[DatabaseConnection], T]) -> T:
        """What `do` returns. It is called again after a lost connection, with `retried` set."""
        return await self._worker.run(self._perform, do)

    async def call(self, function: str, *values: Value | PackedArray) -> Fields:
        """The rows that a function of our schema returns. It may be called again after a lost connection."""
        if self._was_there and self._in_loop.may_call():
            try:
                return await self._in_loop.call(function, values)
            except psycopg.Error:
                pass  # the thread finds out whether it matters, and has the patience
        return await self.run(lambda connection: connection.call(function, *values))

    async def close(self) -> None:
        await self._in_loop.close()
        await self._worker.close(self._drop)

    # Everything below runs in one of the threads.

    def _perform(self, do: Callable[[DatabaseConnection], T]) -> T:
        began = time.monotonic()
        if self._resting is not None and began < self._resting[0]:
            raise self._resting[1]
        deadline = began + self._patience
        pause = _FIRST_PAUSE
        lost = False
        while True:
            try:
                connection = self._connection()
                connection.retried = lost
                return do(connection)
            except psycopg.Error as error:
                if errors.is_lost(error):
                    self._drop()
                    lost = True
                failure = errors.failure(error, self.address)
                may_come_back = self._was_there or errors.is_starting(error)
                if not is_transient(failure) and not errors.is_worth_repeating(error):
                    raise failure from None
                if not may_come_back or time.monotonic() + pause > deadline:
                    self._resting = time.monotonic() + self._rest, failure
                    raise failure from None
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that not all come at once
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _connection(self) -> DatabaseConnection:
        held: DatabaseConnection | None = getattr(self._own, "connection", None)
        if held is None or held.driver.closed:
            held = self._own.connection = self._open()
        return held

    def _open(self) -> DatabaseConnection:
        driver = psycopg.connect(
            self.address.url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=_CONNECT_SECONDS,
            application_name="segue",
            client_encoding="utf8",
            **_KEEPALIVE,
        )
        self._was_there = True
        try:
            connection = DatabaseConnection(driver, self.address.schema)
            with self._opening:
                if not self._is_checked:
                    self._check(connection)
                    self._is_checked = True
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

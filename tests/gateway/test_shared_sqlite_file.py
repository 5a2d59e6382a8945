"""The file that gateways share: who reads it never fails because somebody else has it for a moment."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Timer

import pytest

from segue.databases.shared_sqlite_file import SharedFile
from segue.errors import JournalError, StoreUnreachableError


def opened(file: Path, patience: float = 5.0) -> SharedFile:
    schema = ("CREATE TABLE numbers (number INTEGER)", "INSERT INTO numbers VALUES (1)")
    return SharedFile(file, "The file of this test", schema, 1, page_size=1024, patience=patience)


def sum_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT sum(number) FROM numbers").fetchone()[0])


def read(file: SharedFile, do: Callable[[sqlite3.Connection], int] = sum_of) -> int:
    return asyncio.run(file.read(do))


def test_a_read_waits_for_a_file_that_somebody_else_has_locked(tmp_path: Path) -> None:
    file = opened(tmp_path / "file.db")
    assert read(file) == 1
    other = sqlite3.connect(tmp_path / "file.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO numbers VALUES (2)")
    freed = Event()

    def free() -> None:
        freed.set()
        other.execute("COMMIT")

    Timer(0.1, free).start()

    def locked_sum(connection: sqlite3.Connection) -> int:
        # A reader itself is locked out only while a file is put in order after a crash. This asks for the same lock.
        connection.execute("BEGIN IMMEDIATE")
        try:
            return sum_of(connection)
        finally:
            connection.execute("ROLLBACK")

    assert read(file, locked_sum) == 3
    assert freed.is_set()
    other.close()
    asyncio.run(file.close())


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit for the size of files")
def test_a_file_that_cannot_be_made_fails_at_once(tmp_path: Path) -> None:
    """The loop of a gateway waited ten seconds, for each of its requests."""
    import resource

    largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, largest[1]))
    try:
        with pytest.raises(JournalError, match="cannot be read or written"):
            read(opened(tmp_path / "file.db"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, largest)
    assert time.monotonic() - began < 5


def test_a_read_sees_at_once_what_was_written_here_and_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        here, there = opened(tmp_path / "file.db"), opened(tmp_path / "file.db")
        assert await here.read(sum_of) == await there.read(sum_of) == 1
        for _ in range(3):
            for writer in (here, there):
                assert writer.write_at_once(lambda connection: _add(connection, 1))
                assert await here.read(sum_of) == await there.read(sum_of)
            await here.write(lambda connection: _add(connection, 10))  # in the thread
            assert await here.read(sum_of) == await there.read(sum_of)
        assert await here.read(sum_of) == 37
        await here.close()
        await there.close()

    asyncio.run(story())


def test_who_waits_for_a_locked_file_is_told_in_time_and_all_others_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        file = opened(tmp_path / "file.db", patience=0.3)
        assert await file.write_small(sum_of) == 1
        other = sqlite3.connect(tmp_path / "file.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        waits = [
            file.write_small(sum_of),
            file.write(sum_of),
            file.check(),
            file.write_late(lambda connection: _add(connection, 2)),
        ]
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(outcome, StoreUnreachableError) for outcome in outcomes), outcomes
        assert 0.25 < time.monotonic() - began < 2
        began = time.monotonic()
        for _ in range(100):
            with pytest.raises(StoreUnreachableError) as refused:
                await file.write_small(sum_of)
            assert not refused.value.may_be_done
            if time.monotonic() - began > 0.2:
                break
        assert await file.read(sum_of) == 1, "what may be read is read"
        other.execute("COMMIT")
        assert await file.write_small(sum_of) >= 1, "tried at once, whatever was before"
        while await file.read(sum_of) != 3:
            await asyncio.sleep(0.01)  # what was given up by its caller is written all the same
        assert time.monotonic() - began < 10
        await file.check()
        await file.close()

    asyncio.run(story())


def test_the_loop_runs_on_while_a_locked_file_is_opened_and_waited_for(tmp_path: Path) -> None:
    """It stood still for ten seconds, and with it every other request."""

    async def story() -> None:
        made = opened(tmp_path / "file.db")
        await made.read(sum_of)
        await made.close()
        other = sqlite3.connect(tmp_path / "file.db", isolation_level=None)
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        file = opened(tmp_path / "file.db", patience=0.5)
        late = 0.0

        async def beat() -> None:
            nonlocal late
            while True:
                began = time.monotonic()
                await asyncio.sleep(0.01)
                late = max(late, time.monotonic() - began)

        beating = asyncio.ensure_future(beat())
        with pytest.raises(StoreUnreachableError):
            await file.read(sum_of)
        beating.cancel()
        assert late < 0.4
        other.close()
        await file.close()

    asyncio.run(story())


def _add(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("INSERT INTO numbers VALUES (?)", (number,))


def test_what_is_written_together_is_all_there_and_one_bad_change_costs_no_other(
    tmp_path: Path,
) -> None:
    def adds(number: int) -> Callable[[sqlite3.Connection], None]:
        def add(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO numbers VALUES (?)", (number,))

        return add

    def fails(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO nowhere VALUES (1)")

    async def main() -> None:
        file = opened(tmp_path / "file.db")
        assert await file.read(sum_of) == 1
        assert await asyncio.gather(*map(file.write_together, map(adds, (10, 100)))) == [True, True]
        assert await file.read(sum_of) == 111
        bad = [file.write_together(change) for change in (adds(1000), fails, adds(10_000))]
        first, failed, last = await asyncio.gather(*bad, return_exceptions=True)
        assert (first, last) == (True, True)
        assert isinstance(failed, JournalError)
        assert await file.read(sum_of) == 11_111
        # Who no longer waits has written all the same.
        leaving = asyncio.ensure_future(file.write_together(adds(100_000)))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait({leaving})
        assert await file.read(sum_of) == 111_111
        await file.close()

    asyncio.run(main())

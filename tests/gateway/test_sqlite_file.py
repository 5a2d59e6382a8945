"""The file that gateways share: who reads it never fails because somebody else has it for a moment."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from pathlib import Path
from threading import Event, Timer

import pytest

from segue.errors import JournalError
from segue.gateway.sqlite_file import SharedFile


def opened(file: Path) -> SharedFile:
    schema = ("CREATE TABLE numbers (number INTEGER)", "INSERT INTO numbers VALUES (1)")
    return SharedFile(file, "The file of this test", schema, 1, page_size=1024)


def sum_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT sum(number) FROM numbers").fetchone()[0])


def test_a_read_waits_for_a_file_that_somebody_else_has_locked(tmp_path: Path) -> None:
    file = opened(tmp_path / "file.db")
    assert file.read(sum_of) == 1
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

    assert file.read(locked_sum) == 3
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
            opened(tmp_path / "file.db").read(sum_of)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, largest)
    assert time.monotonic() - began < 5


def test_a_read_sees_at_once_what_was_written_here_and_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        here, there = opened(tmp_path / "file.db"), opened(tmp_path / "file.db")
        assert here.read(sum_of) == there.read(sum_of) == 1
        for _ in range(3):
            for writer in (here, there):
                assert writer.write_at_once(lambda connection: _add(connection, 1))
                assert here.read(sum_of) == there.read(sum_of)
            await here.write(lambda connection: _add(connection, 10))  # in the thread
            assert here.read(sum_of) == there.read(sum_of)
        assert here.read(sum_of) == 37
        await here.close()
        await there.close()

    asyncio.run(story())


def _add(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("INSERT INTO numbers VALUES (?)", (number,))

"""What is particular to sessions in a SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from segue.conversation.message import user
from segue.errors import JournalError, UsageError
from segue.sessions.entries import SessionStarted, UserSaid
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.journal import Journal
from segue.sessions.leases import this_process
from segue.sessions.stores.sqlite import SQLiteStore, known_steps, migrate
from sessions.stores_under_test import append_from_threads

SAID = UserSaid(user("hello"))
ENCODED = EncodedEntry.of(SAID)


def test_files_are_for_their_owner_alone_and_safe_against_a_power_cut(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "new" / "sessions.db")
        journal = await Journal.start(store, SessionStarted())
        await journal.append(SAID)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "new").iterdir()}
        assert modes == {"sessions.db": 0o600, "sessions.db-wal": 0o600, "sessions.db-shm": 0o600}
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
        settings = await store._run(_settings, store)
        assert settings == ["wal", 2, 1]
        await store.close()

    asyncio.run(main())


def test_a_file_of_a_newer_segue_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "sessions.db"
        await _made(file)
        with sqlite3.connect(file) as connection:
            connection.execute("INSERT INTO migrations (number) VALUES (99)")
        connection.close()
        store = SQLiteStore(file)
        with pytest.raises(JournalError) as refused:
            await store.find()
        assert refused.value.code == "newer_store"
        assert "newer segue" in str(refused.value)
        await store.close()

    asyncio.run(main())


def test_an_old_file_is_brought_up_to_date_step_by_step(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "sessions.db"
        await _made(file)
        steps = known_steps()
        newest = max(number for number, _ in steps)
        later = [
            (newest + 1, "-- A comment; with a semicolon.\nALTER TABLE sessions ADD COLUMN stars INTEGER;"),
            (newest + 2, "UPDATE sessions SET stars = 5;\nCREATE TABLE extra (x);"),
        ]
        broken = (newest + 3, "CREATE TABLE half (x);\nNONSENSE;")
        connection = sqlite3.connect(file, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, "here", [*steps, *later, broken])
        migrate(connection, "here", [*steps, *later])
        assert connection.execute("SELECT stars FROM sessions").fetchall() == [(5,)]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert "extra" in tables
        assert "half" not in tables  # a step is whole or not there
        connection.close()

    asyncio.run(main())


def test_steps_are_numbered_from_one_without_gaps() -> None:
    assert [number for number, _ in known_steps()] == list(range(1, len(known_steps()) + 1))


def test_what_is_no_database_is_told_in_words(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "sessions.db"
        file.write_bytes(b"This is a diary. " * 100)
        store = SQLiteStore(file)
        with pytest.raises(JournalError) as refused:
            await store.find()
        assert refused.value.code == "store_failed"
        assert "sessions.db" in str(refused.value)
        await store.close()

    asyncio.run(main())


def test_a_closed_store_says_that_it_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "sessions.db")
        await store.find()
        await store.close()
        await store.close()
        with pytest.raises(UsageError, match="closed"):
            await store.find()

    asyncio.run(main())


def test_several_threads_with_loops_of_their_own_share_a_store(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "sessions.db")
    assert append_from_threads(store, threads=4, appends=10) == [11] * 4
    asyncio.run(store.close())


def test_the_epoch_is_compared_inside_the_transaction_that_writes(tmp_path: Path) -> None:
    """A writer that stalls between its check and its write is the very case that a check beforehand misses."""

    async def main() -> None:
        file = tmp_path / "sessions.db"
        slow, other = SQLiteStore(file), SQLiteStore(file)
        stale = await slow.create("s", EncodedEntry.of(SessionStarted()), this_process())
        entered, resume = threading.Event(), threading.Event()

        def stall() -> int:
            # The stale owner is about to write, and waits outside any transaction.
            entered.set()
            resume.wait(5)
            return slow._append(stale, [ENCODED])

        writing = asyncio.ensure_future(slow._run(stall))
        await asyncio.to_thread(entered.wait, 5)
        lease = await other.claim("s", this_process(), take_over=True)
        resume.set()
        with pytest.raises(JournalError, match="taken over"):
            await writing
        assert await other.append(lease, [ENCODED]) == 2
        await slow.close()
        await other.close()

    asyncio.run(main())


def _settings(store: SQLiteStore) -> list[object]:
    names = ("journal_mode", "synchronous", "foreign_keys")
    return [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]


async def _made(file: Path) -> None:
    store = SQLiteStore(file)
    journal = await Journal.start(store, SessionStarted())
    await journal.append(SAID)
    await journal.close()
    await store.close()

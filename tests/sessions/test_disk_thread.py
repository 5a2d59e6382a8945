"""An append is written in the loop's own thread where that is quick, and never keeps the loop waiting for others."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from segue.conversation.message import user
from segue.sessions.entries import SessionStarted, UserSaid
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.leases import this_process
from segue.sessions.stores import sqlite
from segue.sessions.stores.sqlite import SQLiteStore


def test_an_append_waits_for_another_writer_without_stopping_the_loop(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        store = SQLiteStore(tmp_path / "sessions.db")
        lease = await store.create("one", EncodedEntry.of(SessionStarted()), this_process())
        other = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
        appending = asyncio.create_task(store.append(lease, [EncodedEntry.of(UserSaid(user("Hi")))]))
        beats = 0
        while not appending.done():
            await asyncio.sleep(0.01)
            beats += 1
        other.close()
        await store.close()
        return await appending, beats

    seq, beats = asyncio.run(main())
    assert seq == 2
    assert beats >= 10


def test_a_disk_that_is_slow_again_and_again_is_left_to_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "SLOW_SECONDS", 0.0)

    async def main() -> list[bool]:
        store = SQLiteStore(tmp_path / "sessions.db")
        lease = await store.create("one", EncodedEntry.of(SessionStarted()), this_process())
        at_once = []
        for number in range(2 * sqlite.SLOW_WRITES):
            at_once.append(time.monotonic() >= store._slow_until)
            assert await store.append(lease, [EncodedEntry.of(UserSaid(user("Hi")))]) == number + 2
        await store.close()
        return at_once

    assert asyncio.run(main()) == [True] * sqlite.SLOW_WRITES + [False] * sqlite.SLOW_WRITES

"""A store that is open in one process, and what other processes do with the same file meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from segue.errors import JournalError
from segue.sessions.entries import SessionStarted
from segue.sessions.journal import Journal
from segue.sessions.stores.sqlite import SQLiteStore

ANOTHER = """
import asyncio, sys
from segue.errors import JournalError
from segue.sessions.journal import Journal
from segue.sessions.stores.sqlite import SQLiteStore

async def main():
    store = SQLiteStore(sys.argv[1])
    try:
        journal = await Journal.resume(store, sys.argv[2], take_over=sys.argv[3] == "yes")
        await journal.rename("taken over")
        await journal.close()
    except JournalError as error:
        print(error.code, end="")
    finally:
        await store.close()

asyncio.run(main())
"""


def test_a_process_that_was_refused_takes_nothing_from_the_one_that_writes(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"

    def another(session: str, take_over: str) -> str:
        words = [sys.executable, "-c", ANOTHER, str(file), session, take_over]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout  # noqa: S603 - ours

    async def main() -> None:
        store = SQLiteStore(file)
        journal = await Journal.start(store, SessionStarted())
        await journal.rename("mine")
        assert another(journal.session, "no") == "session_busy"
        assert another(journal.session, "yes") == ""
        with pytest.raises(JournalError, match="taken over"):
            await journal.rename("mine again")
        assert [info.title for info in await store.find()] == ["taken over"]
        await store.close()

    asyncio.run(main())

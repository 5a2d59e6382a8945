"""Sessions that are copied from one store into another lose nothing, and what cannot be copied is named."""

from __future__ import annotations

import asyncio
import sqlite3
from itertools import permutations
from pathlib import Path

import pytest

from cli.cli_runs import Home
from postgres_server import schema_url
from segue.conversation.blocks import Text
from segue.conversation.message import Message, user
from segue.sessions.entries import Link, ModelReplied, SessionStarted, TurnEnded, UserSaid
from segue.sessions.journal import Journal, fork
from segue.sessions.stores.store import SessionInfo, Store
from segue.sessions.transfer import CopiedSession, copy_sessions
from sessions.stores_under_test import DURABLE, open_store

REPLY = ModelReplied(Message("model", (Text("lone \ud800 half, nul \0, ✓"),)))


async def fill(store: Store) -> None:
    """A session, a fork of it, a subagent's, and one of that one's."""
    parent = await Journal.start(store, SessionStarted(title="T", directory="/d", model="a/b"), "parent")
    await parent.append(UserSaid(user("question")), REPLY, TurnEnded())
    await parent.rename("Renamed")
    await parent.close()
    await (await fork(store, "parent", session_id="fork")).close()
    for name, link in (("child", Link("parent", call="c0", seq=2)), ("grandchild", Link("child", call="c1"))):
        await (await Journal.start(store, SessionStarted(parent=link), name)).close()


async def copied(source: Store, target: Store, *names: str) -> dict[str, CopiedSession]:
    return {one.id: one async for one in copy_sessions(source, target, names)}


async def listed(store: Store) -> dict[str, SessionInfo]:
    found = [
        *await store.find(limit=100),
        *await store.find(parent="parent"),
        *await store.find(parent="child"),
    ]
    return {info.id: info for info in found}


@pytest.mark.parametrize(("one", "other"), [*permutations(DURABLE, 2)])
def test_a_copy_has_everything_and_can_be_made_again(one: str, other: str, tmp_path: Path) -> None:
    async def main() -> None:
        source, target = open_store(one, tmp_path / "from"), open_store(other, tmp_path / "to")
        await fill(source)
        done = await copied(source, target)
        assert {name: (copy.outcome, copy.problem) for name, copy in done.items()} == dict.fromkeys(
            ("parent", "fork", "child", "grandchild"), ("copied", "")
        )
        before, after = await listed(source), await listed(target)
        assert before.keys() == after.keys() == done.keys()
        for name, info in before.items():
            records, there = await source.read(name), await target.read(name)
            assert [record.entry for record in records] == [record.entry for record in there]
            assert [record.at for record in records] == pytest.approx(
                [record.at for record in there], abs=1e-5
            )
            copy = after[name]
            assert (copy.parent, copy.title, copy.model) == (info.parent, info.title, info.model)
            assert (copy.directory, copy.first_words, copy.turns) == (
                info.directory,
                info.first_words,
                info.turns,
            )
            assert copy.created == pytest.approx(info.created, abs=0.1)
            assert copy.holder is None
        assert {copy.outcome for copy in (await copied(source, target)).values()} == {"known"}
        journal = await Journal.resume(target, "parent")
        await journal.append(UserSaid(user("next")))
        await journal.close()
        again = await copied(source, target)
        assert "changed since" in again["parent"].problem
        assert again["fork"].outcome == "known"
        await source.close()
        await target.close()

    asyncio.run(main())


def test_damaged_and_open_sessions_are_named_and_the_others_copied(tmp_path: Path) -> None:
    async def main() -> None:
        source = open_store("sqlite", tmp_path)
        await fill(source)
        held = await Journal.start(source, SessionStarted(), "held")
        with sqlite3.connect(tmp_path / "sessions.db") as connection:
            connection.execute("UPDATE entries SET at = at + 1 WHERE place & 255 = 3 AND place >> 32 = 1")
        connection.close()
        target = open_store("memory", tmp_path)
        done = await copied(source, target)
        assert "entry 3" in done["parent"].problem
        assert "checksum" in done["parent"].problem
        assert "open in process" in done["held"].problem
        assert {info.id for info in await target.find()} == {"fork"}
        await held.close()
        assert set(await copied(source, target, "held")) == {"held"}
        await source.close()

    asyncio.run(main())


def test_the_command_copies_into_the_store_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.configure(f'store = "{schema_url(tmp_path)}"\n')

    async def main() -> None:
        store = open_store("sqlite", tmp_path)
        await fill(store)
        await store.close()

    asyncio.run(main())
    done = home.run("sessions", "copy", str(tmp_path / "sessions.db"), "store")
    assert (done.code, done.err) == (
        0,
        "Copied 4 sessions with 12 entries; 0 were there already, 0 were not copied.\n",
    )
    assert "Renamed" in home.run("sessions", "list").out
    back = home.run("sessions", "copy", "store", f"{tmp_path}/lines/", "parent")
    assert back.code == 0
    assert sorted(file.name for file in (tmp_path / "lines").glob("*.jsonl")) == [
        "child.jsonl",
        "grandchild.jsonl",
        "parent.jsonl",
    ]

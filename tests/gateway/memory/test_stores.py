"""Both stores of the gateway's memory keep the same promises; the one on the disk also across processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import current_thread

import pytest

from postgres_server import schema_url
from segue.errors import JournalError
from segue.gateway.memory.postgres_store import PostgresMemoryStore
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.memory.store import ConversationInfo, GatewayStore, MemoryRecord


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


Opener = Callable[..., GatewayStore]


@pytest.fixture(params=["sqlite", "volatile", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "volatile":
        return SQLiteMemoryStore
    if request.param == "postgres":
        url = schema_url(tmp_path)
        return lambda **settings: PostgresMemoryStore(url, **settings)
    return lambda **settings: SQLiteMemoryStore(tmp_path / "memory.sqlite", **settings)


def record(*keys: str, size: int = 10) -> MemoryRecord:
    return MemoryRecord(tuple(key.encode() for key in keys), keys[0].encode().ljust(size, b"."))


def test_a_record_is_found_under_each_of_its_keys(opened: Opener) -> None:
    async def story() -> None:
        store = opened()
        await store.write([record("a", "b"), record("c")])
        assert await store.read([b"a", b"b", b"c", b"d"]) == {
            b"a": b"a.........",
            b"b": b"a.........",
            b"c": b"c.........",
        }
        await store.close()

    asyncio.run(story())


def test_more_keys_than_one_statement_takes(opened: Opener) -> None:
    async def story() -> None:
        store = opened()
        await store.write([record(*(f"k{n}" for n in range(1700)))])
        assert len(await store.read([f"k{n}".encode() for n in range(1700)])) == 1700
        await store.close()

    asyncio.run(story())


def test_a_key_that_is_written_again_leads_to_the_new_record(opened: Opener) -> None:
    async def story() -> None:
        store = opened()
        await store.write([record("a", "b")])
        await store.write([MemoryRecord((b"a",), b"new")])
        assert await store.read([b"a", b"b"]) == {b"a": b"new", b"b": b"a........."}
        await store.close()

    asyncio.run(story())


def test_a_first_key_leads_to_what_was_written_first(opened: Opener) -> None:
    """Also after the later record was used, and moved among the new ones."""

    async def story() -> None:
        clock = Clock()
        store = opened(keep_seconds=30 * 86_400.0, clock=clock)
        for name in (b"one", b"two", b"three"):
            await store.write([MemoryRecord((b"last",), name, (b"first",))])
        for _ in range(3):
            assert await store.read([b"last", b"first"]) == {b"last": b"three", b"first": b"one"}
            clock.now += 5 * 86_400.0
            assert set(await store.read([b"last"])) == {b"last"}
            await store.write([record("other")])
        await store.delete([b"last"])
        assert await store.read([b"last", b"first"]) == {b"first": b"one"}
        await store.close()

    asyncio.run(story())


def test_a_deleted_record_is_gone_under_all_keys(opened: Opener) -> None:
    async def story() -> None:
        store = opened()
        await store.write([record("a", "b"), record("c")])
        await store.delete([b"b", b"unknown"])
        assert set(await store.read([b"a", b"b", b"c"])) == {b"c"}
        await store.close()

    asyncio.run(story())


def test_what_is_not_used_for_long_enough_is_gone_and_what_is_used_stays(opened: Opener) -> None:
    async def story() -> None:
        clock = Clock()
        store = opened(keep_seconds=10_000.0, clock=clock)
        await store.write([record("used"), record("unused")])
        clock.now += 8_000
        assert set(await store.read([b"used"])) == {b"used"}
        await store.write([record("another")])
        clock.now += 8_000
        assert set(await store.read([b"used", b"unused"])) == {b"used"}
        await store.close()

    asyncio.run(story())


def test_the_longest_unused_make_room(opened: Opener) -> None:
    async def story() -> None:
        clock = Clock()
        store = opened(max_bytes=1_000, clock=clock)
        for number in range(30):
            clock.now += 4_000
            await store.write([record(f"k{number}", size=100)])
            assert b"k0" in await store.read([b"k0"])
        held = await store.read([f"k{n}".encode() for n in range(30)])
        assert b"k29" in held
        assert sum(map(len, held.values())) <= 1_000
        await store.close()

    asyncio.run(story())


def test_the_number_of_records_is_bounded_too(opened: Opener) -> None:
    async def story() -> None:
        store = opened(max_records=10)
        for number in range(50):
            await store.write([record(f"k{number}")])
        assert 5 < len(await store.read([f"k{n}".encode() for n in range(50)])) <= 10
        await store.close()

    asyncio.run(story())


def test_conversations_are_listed_and_switched(opened: Opener) -> None:
    async def story() -> None:
        clock = Clock()
        store = opened(clock=clock)
        await store.note(ConversationInfo(id="one", caller="me", client="x/1", asked="m", route="a/b"))
        clock.now += 5
        await store.note(ConversationInfo(id="two"))
        assert await store.switch("one", "openai/x")
        assert not await store.switch("three", "openai/x")
        clock.now += 5
        await store.note(ConversationInfo(id="one", caller="me", client="x/1", asked="m", route="c/d"))
        first, second = await store.conversations()
        assert (first.id, first.route, first.switched, first.requests) == ("one", "c/d", "openai/x", 2)
        assert (first.created, first.updated) == (clock.now - 10, clock.now)
        assert second.id == "two"
        assert await store.conversation("one") == first
        assert await store.conversation("three") is None
        assert [info.id for info in await store.conversations(limit=1)] == ["one"]
        clock.now += 5
        await store.note(ConversationInfo(id="three", caller="you"))
        assert [info.id for info in await store.conversations(1, "me")] == ["one"]
        assert [info.id for info in await store.conversations(1, "")] == ["two"]
        assert await store.conversations(1, "nobody") == []
        await store.close()

    asyncio.run(story())


def test_a_conversation_is_known_and_last_while_its_request_runs(opened: Opener) -> None:
    async def story() -> None:
        clock = Clock()
        store = opened(clock=clock)
        await store.switch_session("s", "openai/y", "me")
        await store.note(ConversationInfo(id="old", caller="me", route="a/b"))
        clock.now += 5
        begun = ConversationInfo(id="new", caller="me", client="x/1", door="d", asked="m", session="s")
        await store.note_request(begun)
        last, _ = await store.conversations()
        assert last == ConversationInfo(
            **{name: getattr(begun, name) for name in ("id", "caller", "client", "door", "asked", "session")},
            switched="openai/y",
            created=clock.now,
            updated=clock.now,
        )
        assert await store.switch("new", "openai/x")
        clock.now += 5
        await store.note_request(ConversationInfo(id="old", caller="me"))
        await store.note_request(ConversationInfo(id="new", caller="you"))
        last, other = await store.conversations()
        assert (last.id, last.route, last.requests, last.updated) == ("old", "a/b", 1, clock.now)
        assert (other.id, other.caller, other.requests, other.updated) == ("new", "me", 0, clock.now - 5)
        clock.now += 5
        await store.note(ConversationInfo(id="new", caller="me", route="c/d"))
        ended = await store.conversation("new")
        assert ended is not None
        assert (ended.route, ended.requests, ended.switched) == ("c/d", 1, "openai/x")
        await store.close()

    asyncio.run(story())


def test_a_session_is_switched_with_what_begins_in_it_later(opened: Opener) -> None:
    async def story() -> None:
        store = opened()
        for name, session, caller in (
            ("one", "s", "ann"),
            ("two", "s", "ann"),
            ("three", "t", "ann"),
            ("four", "s", "bob"),
        ):
            await store.note(ConversationInfo(id=name, caller=caller, session=session))
        await store.switch_session("s", "openai/x", "ann")
        await store.note(ConversationInfo(id="five", caller="ann", session="s"))
        await store.note(ConversationInfo(id="six", caller="bob", session="s"))
        chosen = {info.id: (info.switched, info.session) for info in await store.conversations()}
        moved, rest = ("openai/x", "s"), ("", "s")
        assert chosen == {
            "one": moved,
            "two": moved,
            "three": ("", "t"),
            "four": rest,
            "five": moved,
            "six": rest,
        }
        assert await store.session_switch("s", "ann") == "openai/x"
        assert await store.session_switch("s", "bob") == ""
        await store.switch_session("s", "", "ann")
        await store.note(ConversationInfo(id="seven", caller="ann", session="s"))
        assert {info.switched for info in await store.conversations()} == {""}
        await store.close()

    asyncio.run(story())


def test_a_conversation_belongs_to_the_caller_that_it_was_noted_for_first(opened: Opener) -> None:
    async def story() -> None:
        store = opened()
        await store.note(ConversationInfo(id="one", caller="ann", route="a/b"))
        assert not await store.switch("one", "openai/x", "bob")
        assert await store.switch("one", "openai/x", "ann")
        await store.note(ConversationInfo(id="one", caller="bob", route="c/d"))
        info = await store.conversation("one")
        assert info is not None
        assert (info.caller, info.route, info.switched, info.requests) == ("ann", "a/b", "openai/x", 1)
        assert await store.switch("one", "", None), "an operator"
        await store.close()

    asyncio.run(story())


def test_two_gateways_on_one_file_see_each_other_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        one, two = (SQLiteMemoryStore(tmp_path / "memory.sqlite") for _ in range(2))
        for number in range(20):
            await one.write([record(f"one{number}")])
            await two.write([record(f"two{number}")])
            assert await two.read([f"one{number}".encode()])
            assert await one.read([f"two{number}".encode()])
        await one.note(ConversationInfo(id="c"))
        assert await two.switch("c", "x/y")
        seen = await one.conversation("c")
        assert seen is not None
        assert seen.switched == "x/y"
        await one.close()
        await two.close()

    asyncio.run(story())


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    async def story() -> None:
        store = SQLiteMemoryStore(tmp_path / "inner" / "memory.sqlite")
        await store.write([record("a")])
        for file in (tmp_path / "inner").iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        await store.close()

    asyncio.run(story())


WRITER = """
import asyncio, sys
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.memory.store import MemoryRecord

async def main():
    store = SQLiteMemoryStore(sys.argv[1])
    for number in range(100_000):
        await store.write([MemoryRecord((b"%d" % number, b"x%d" % number), b"body" * 100)])
        print(number, flush=True)

asyncio.run(main())
"""


def test_what_was_written_survives_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "memory.sqlite"
    writer = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    last = 0
    for line in writer.stdout:
        last = int(line)
        if last >= 100:
            os.kill(writer.pid, signal.SIGKILL)
            break
    last = max([last, *map(int, writer.stdout.read().split())])
    writer.wait()
    writer.stdout.close()

    async def story() -> None:
        store = SQLiteMemoryStore(file)
        keys = [b"%d" % number for number in range(last + 1)]
        assert len(await store.read(keys)) == last + 1
        assert len(await store.read([b"x" + key for key in keys])) == last + 1
        await store.write([record("after")])
        await store.close()

    asyncio.run(story())


def test_a_file_that_is_no_database_is_reported_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "memory.sqlite"
    file.write_bytes(b"no database at all, but long enough to look at" * 100)

    async def story() -> None:
        store = SQLiteMemoryStore(file)
        with pytest.raises(JournalError, match="cannot be read") as caught:
            await store.read([b"a"])
        assert caught.value.path == str(file)

    asyncio.run(story())


def test_usual_replies_are_written_in_the_loop_and_large_ones_by_the_thread(tmp_path: Path) -> None:
    writers: list[str] = []

    def clock() -> float:
        writers.append(current_thread().name)
        return 1.0

    async def writer_of(store: SQLiteMemoryStore, size: int) -> str:
        await store.write([MemoryRecord((b"%d" % size,), b"x" * size)])
        found = writers[-1]
        assert await store.read([b"%d" % size]) == {b"%d" % size: b"x" * size}
        return found

    async def story() -> None:
        store = SQLiteMemoryStore(tmp_path / "memory.db", clock=clock)
        # The first looks for what is too old, which may take long.
        assert await writer_of(store, 1) == "segue-gateway-memory"
        assert await writer_of(store, 2000) == current_thread().name
        assert await writer_of(store, 100_000) == "segue-gateway-memory"
        await store.close()

    asyncio.run(story())


def test_a_write_waits_in_the_thread_for_others_and_is_done_when_nobody_waits_any_more(
    tmp_path: Path,
) -> None:
    file = tmp_path / "memory.db"

    async def story() -> None:
        store = SQLiteMemoryStore(file)
        await store.write([record("first")])
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        patient, gone = (asyncio.ensure_future(store.write([record(name)])) for name in ("patient", "gone"))
        await asyncio.sleep(0.05)
        assert not patient.done()
        gone.cancel()
        other.execute("ROLLBACK")
        other.close()
        await patient
        await store.write([MemoryRecord((b"last",), b"x" * 100_000)])  # in the thread, after the others
        assert len(await store.read([b"first", b"patient", b"gone", b"last"])) == 4
        await store.close()

    asyncio.run(story())

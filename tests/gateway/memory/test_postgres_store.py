"""What is particular to the gateway's memory in PostgreSQL: several nodes, one key, partitions, a database that is away."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from pathlib import Path

import psycopg
import pytest

from postgres_server import schema_url
from segue.config.schema import Config
from segue.conversation.blocks import Text
from segue.conversation.message import Message
from segue.databases.postgres.address import read_address
from segue.errors import StoreRefusedError, StoreUnreachableError
from segue.gateway.memory.installation_key import InstallationKey, decode_key
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.postgres_store import PostgresMemoryStore
from segue.gateway.memory.replies import RememberedReply
from segue.gateway.memory.store import ConversationInfo, MemoryRecord
from segue.gateway.stores import open_memory

REPLY = RememberedReply(Message("model", (Text("Hello."),)), route="a/b")
DAY = 86_400.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return schema_url(tmp_path)


def tables(url: str) -> set[str]:
    address = read_address(url)
    with psycopg.connect(address.url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace",
            [address.schema],
        )
        return {str(name) for (name,) in rows}


def test_two_gateways_on_one_database_see_each_other_at_once(url: str) -> None:
    async def story() -> None:
        one, two = (PostgresMemoryStore(url) for _ in range(2))
        for number in range(10):
            await one.write([MemoryRecord((b"one%d" % number,), b"1")])
            await two.write([MemoryRecord((b"two%d" % number,), b"2")])
            assert await two.read([b"one%d" % number])
            assert await one.read([b"two%d" % number])
        await one.note(ConversationInfo(id="c", client="nul \0 and half \ud800"))
        assert await two.switch("c", "x/y")
        seen = await one.conversation("c")
        assert seen is not None
        assert seen.switched == "x/y"
        await one.close()
        await two.close()

    asyncio.run(story())


def test_many_requests_at_once_lose_nothing(url: str) -> None:
    async def story() -> None:
        stores = [PostgresMemoryStore(url) for _ in range(2)]
        keys = [b"%d" % number for number in range(200)]
        # Two keys of each record are shared with others, in another order: no deadlock.
        await asyncio.gather(
            *(
                stores[number % 2].write([MemoryRecord((key, b"a", b"b")[:: -1 if number % 3 else 1], key)])
                for number, key in enumerate(keys)
            )
        )
        assert await stores[0].read(keys) == {key: key for key in keys}
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(story())


def test_old_records_go_with_their_partitions_and_used_ones_move_on(url: str) -> None:
    async def story() -> None:
        now = 1000 * DAY
        store = PostgresMemoryStore(url, keep_seconds=30 * DAY, clock=lambda: now)
        await store.write([MemoryRecord((b"old",), b"old"), MemoryRecord((b"used", b"again"), b"used")])
        before = {name for name in tables(url) if "_p" in name}
        assert len(before) == 2
        for _ in range(10):
            now += 9 * DAY
            assert await store.read([b"again"]) == {b"again": b"used"}
            await store.write([MemoryRecord((b"more",), b"more")])
        assert await store.read([b"old", b"used", b"again"]) == {b"used": b"used", b"again": b"used"}
        after = tables(url)
        assert not before & after
        assert len([name for name in after if "_p" in name]) <= 2 * 9
        await store.delete([b"again"])
        assert await store.read([b"used", b"again"]) == {}
        await store.close()

    asyncio.run(story())


def test_nodes_with_different_keys_are_refused_and_a_shared_key_comes_from_the_environment(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        config = Config(store=url)
        first = open_memory(config)
        await first.remember("me", b"", REPLY)
        monkeypatch.setenv("SEGUE_INSTALLATION_KEY", base64.b64encode(b"k" * 32).decode().rstrip("="))
        other = open_memory(config)
        with pytest.raises(StoreRefusedError, match="another installation's key") as refused:
            await other.store.read([b"x"])
        assert "key_env" in str(refused.value)
        elsewhere = Config(store=f"{url}_2")
        nodes = [open_memory(elsewhere) for _ in range(2)]
        await nodes[0].remember("me", b"", REPLY)
        place = nodes[1].place_key("me", b"", REPLY.message)
        assert await nodes[1].recall([place]) == {place: REPLY}
        for memory in (first, other, *nodes):
            await memory.close()

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    asyncio.run(story())
    assert decode_key(base64.urlsafe_b64encode(b"\xff" * 32).decode(), "here").digest("x")


def test_a_database_that_is_away_costs_seals_and_little_time(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        store = PostgresMemoryStore("postgresql://segue@127.0.0.1:1/nowhere")
        memory = Memory(store, InstallationKey(b"k" * 32))
        started = time.monotonic()
        for _ in range(20):
            await memory.remember("me", b"", REPLY)
            assert await memory.recall(memory.call_keys("me", ["c"])) == {}
            assert await memory.switched("", "c") == ("", True)
        assert time.monotonic() - started < 5
        with pytest.raises(StoreUnreachableError):
            await memory.put_object("me", "response", "r", b"x")
        await memory.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "does not answer" in caplog.text

"""Replies are kept as nodes: each holds what is new, and a conversation is stored once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from postgres_server import schema_url
from segue.dialects.server_side import stored_replies as stored
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.postgres_store import PostgresMemoryStore
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.memory.store import ConversationInfo, GatewayStore, MemoryRecord
from segue.gateway.stored_objects.reply_archive import ReplyArchive, ReplyNode, ReplyOrigin, history

KEY = InstallationKey(b"k" * 32)


class CountingStore(SQLiteMemoryStore):
    """Knows how many bytes it was given."""

    written = 0

    async def write(self, records: Sequence[MemoryRecord], seen: ConversationInfo | None = None) -> None:
        self.written += sum(len(record.body) for record in records)
        await super().write(records)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> GatewayStore:
    if request.param == "postgres":
        return PostgresMemoryStore(schema_url(tmp_path), patience=30.0)
    return SQLiteMemoryStore(tmp_path / "memory.sqlite")


def item(text: str) -> Raw:
    return Raw(msgspec.json.encode({"role": "user", "content": text}))


def reply(name: str, text: str) -> Raw:
    return Raw(msgspec.json.encode({"id": name, "output": [{"id": f"{name}_item", "text": text}]}))


def node(name: str, *texts: str, parent: str = "", **fields: object) -> ReplyNode:
    made = ReplyNode(reply=reply(name, f"answer of {name}"), input=[*map(item, texts)], parent=parent)
    return msgspec.structs.replace(made, **fields)


def words(chain: list[ReplyNode] | None) -> list[str]:
    assert chain is not None
    read = [msgspec.json.decode(one) for one in history(chain, stored.reply_items)]
    return [one.get("content", one.get("text")) for one in read]


async def whole(archive: ReplyArchive, name: str, caller: str = "me") -> list[str]:
    found = await archive.find(caller, name)
    assert found is not None
    return words(await archive.chain(caller, found))


def test_a_long_chain_is_read_back_whole_and_forks_share_its_beginning(store: GatewayStore) -> None:
    async def main() -> None:
        archive = ReplyArchive(Memory(store, KEY))
        expected: list[str] = []
        for number in range(80):
            parent = f"r{number - 1}" if number else ""
            await archive.add("me", f"r{number}", node(f"r{number}", f"ask {number}", parent=parent))
            expected += [f"ask {number}", f"answer of r{number}"]
        assert await whole(ReplyArchive(Memory(store, KEY)), "r79") == expected
        await asyncio.gather(
            *(archive.add("me", f"f{at}", node(f"f{at}", f"fork {at}", parent="r9")) for at in range(4))
        )
        for at in range(4):
            assert await whole(archive, f"f{at}") == [*expected[:20], f"fork {at}", f"answer of f{at}"]
        assert await archive.find("somebody", "r79") is None
        assert await archive.find("me", "r79", "anthropic") is None
        await store.close()

    asyncio.run(main())


def test_nobody_gets_what_is_left_of_a_conversation_after_a_link_was_deleted(store: GatewayStore) -> None:
    async def main() -> None:
        archive = ReplyArchive(Memory(store, KEY))
        await archive.add("me", "a", node("a", "one"))
        await archive.add("me", "b", node("b", "two", parent="a"))
        await archive.add("me", "c", node("c", "three", parent="b"))
        assert await archive.delete("me", "b")
        assert not await archive.delete("me", "b")
        found = await archive.find("me", "c")
        assert found is not None
        assert await archive.chain("me", found) is None
        assert await whole(archive, "a") == ["one", "answer of a"]
        await store.close()

    asyncio.run(main())


def test_what_is_sent_whole_because_a_link_is_gone_does_not_begin_with_it(store: GatewayStore) -> None:
    """A client that is refused sends everything, and must not be refused again for it."""

    async def main() -> None:
        archive, sent = ReplyArchive(Memory(store, KEY)), list[str]()
        for turn in range(4):
            sent += [f"ask {turn}"]
            await archive.add("me", f"r{turn}", node(f"r{turn}", *sent))
            sent += [f"answer of r{turn}"]
        for other in (archive, ReplyArchive(Memory(store, KEY))):
            await other.delete("me", "r1")
            found = await other.find("me", "r3")
            assert found is not None
            assert await other.chain("me", found) is None
            await other.add("me", "again", node("again", *sent, "and now?"))
            assert await whole(other, "again") == [*sent, "and now?", "answer of again"]
            await other.delete("me", "again")
        await store.close()

    asyncio.run(main())


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20))
def test_a_history_that_is_sent_whole_each_time_is_stored_once(steps: list[int]) -> None:
    async def main() -> None:
        counting = CountingStore()
        archive, sent, written = ReplyArchive(Memory(counting, KEY)), list[str](), list[int]()
        for turn, count in enumerate(steps):
            sent += [f"{turn}.{at} " + "word " * 200 for at in range(count)]
            before = counting.written
            await archive.add("me", f"r{turn}", node(f"r{turn}", *sent))
            written.append(counting.written - before)
            assert await whole(archive, f"r{turn}") == [*sent, f"answer of r{turn}"]
            sent += [f"what the client made of r{turn}"]
        # A turn holds its own messages, of some 1 kB each, and no others.
        assert all(size < 3000 + 1200 * count for size, count in zip(written, steps, strict=True))
        await counting.close()

    asyncio.run(main())


def test_system_prompt_and_tools_are_kept_once() -> None:
    async def main() -> None:
        counting = CountingStore()
        archive = ReplyArchive(Memory(counting, KEY))
        settings = {"system": Raw(msgspec.json.encode("be kind " * 5000)), "tools": Raw(b"[]")}
        await archive.add("me", "a", node("a", "one", wire="anthropic"), settings)
        begun = counting.written
        await archive.add("me", "b", node("b", "two", parent="a", wire="anthropic"), settings)
        assert counting.written - begun < 1000
        found = await archive.find("me", "b", "anthropic")
        assert found is not None
        assert await archive.settings("me", found) == settings
        await counting.close()

    asyncio.run(main())


def test_an_id_that_a_provider_gives_twice_continues_nothing() -> None:
    async def main() -> None:
        archive = ReplyArchive(Memory(SQLiteMemoryStore(), KEY))
        same = ReplyOrigin("local", id="resp_1", held=True)
        await archive.add("me", "resp_1", node("resp_1", "one", origin=same, provider="local"))
        await archive.add("me", "resp_2", node("resp_2", "two", parent="resp_1"))
        await archive.add("me", "resp_1", node("resp_1", "another", origin=same, provider="local"))
        for name in ("resp_1", "resp_2"):
            found = await archive.find("me", name)
            assert found is not None
            assert await archive.chain("me", found) is None

    asyncio.run(main())


def test_records_of_an_earlier_version_are_continued() -> None:
    async def main() -> None:
        memory = Memory(SQLiteMemoryStore(), KEY)
        old = {"reply": {"id": "a", "output": [{"text": "hi"}]}, "input": [{"content": "one"}], "whole": True}
        old |= {"provider": "openai", "beat": 0.0}
        await memory.put_object("me", "response", "a", msgspec.json.encode(old))
        archive = ReplyArchive(memory)
        await archive.add("me", "b", node("b", "two", parent="a"))
        assert await whole(archive, "b") == ["one", "hi", "two", "answer of b"]

    asyncio.run(main())

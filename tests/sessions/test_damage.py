"""Sessions whose bytes have changed on the disk: named with their place, exported around it, never cut off."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from pathlib import Path

import pytest

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Message, user
from segue.errors import JournalError
from segue.sessions.entries import (
    CallBegun,
    CallEnded,
    CallsScheduled,
    DamagedEntry,
    Entry,
    ModelReplied,
    Record,
    SessionStarted,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.export import FORMS, export_session
from segue.sessions.imports import read_history
from segue.sessions.journal import Journal
from segue.sessions.leases import this_process
from segue.sessions.stores.jsonl import JsonlStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import Store
from sessions.stores_under_test import DURABLE, open_store

CALLS = (ToolCall("c0", "read", {"path": "a"}),)
ENTRIES: tuple[Entry, ...] = (
    UserSaid(user("the first question @ noon")),
    ModelReplied(Message("model", (Text("the first answer ✓"),))),
    TurnEnded(),
    UserSaid(user("the second question")),
    ModelReplied(Message("model", (Text("Let me see."), *CALLS)), "tool_calls"),
    CallsScheduled(CALLS),
    CallBegun("c0"),
    CallEnded(ToolResult("c0", "read", "the content of the file")),
    ToolsAnswered(("c0",)),
    ModelReplied(Message("model", (Text("the second answer"),))),
    TurnEnded(),
)


async def made(kind: str, place: Path) -> Store:
    store = open_store(kind, place)
    journal = await Journal.start(store, SessionStarted(title="T"), "s", more=ENTRIES[:3])
    for entry in ENTRIES[3:9]:
        await journal.append(entry)
    await journal.append(*ENTRIES[9:])
    await journal.close()
    return store


async def made_file(place: Path) -> tuple[JsonlStore, Path]:
    store = await made("jsonl", place)
    assert isinstance(store, JsonlStore)
    return store, place / "sessions" / "s.jsonl"


async def rows_changed(place: Path, statement: str) -> SQLiteStore:
    """The store, of which a row was changed behind its back."""
    await (await made("sqlite", place)).close()
    with sqlite3.connect(place / "sessions.db") as connection:
        connection.execute(statement)
    connection.close()
    return SQLiteStore(place / "sessions.db")


def written(items: list[Record | DamagedEntry]) -> list[Entry]:
    return [item.entry for item in items if isinstance(item, Record)]


def test_no_flipped_bit_of_a_file_changes_a_session_unnoticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")

    async def main() -> None:
        store, file = await made_file(tmp_path)
        data = file.read_bytes()
        whole = await store.salvage("s")
        dice = random.Random(4)
        unnoticed = 0
        # Anywhere, and above all in the last line, whose loss could pass for a torn end.
        last = data.rindex(b"\n", 0, -1) + 1
        flips = [(dice.randrange(len(data)), dice.randrange(8)) for _ in range(200)]
        flips += [(place, dice.randrange(8)) for place in range(last, len(data))]
        for place, bit in flips:
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            file.write_bytes(changed)
            found = await store.salvage("s")
            kept = written(found)
            assert all(entry in written(whole) for entry in kept)  # nothing was made up
            if len(kept) == len(whole):
                unnoticed += kept != written(whole)
                continue
            assert len(kept) >= len(whole) - 2  # a changed end of line can cost two
            assert any(isinstance(item, DamagedEntry) for item in found), (place, bit)
            with pytest.raises(JournalError) as refused:
                await store.read("s")
            assert refused.value.code == "damaged"
            assert "s.jsonl, line " in refused.value.message
            await store.release(await store.claim("s", this_process()))
            assert file.stat().st_size == len(data)  # nothing was cut off
        assert unnoticed == 0
        await store.close()

    asyncio.run(main())


def test_a_changed_end_of_a_line_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store, file = await made_file(tmp_path)
        data = file.read_bytes()
        whole = await store.read("s")
        for place in [place for place, byte in enumerate(data) if byte == 0x0A]:
            file.write_bytes(data[:place] + b"\x0b" + data[place + 1 :])
            assert await store.read("s") == whole
        journal = await Journal.resume(store, "s")  # the last one
        await journal.append(ENTRIES[0])
        assert [record.entry for record in await store.read("s")][-1] == ENTRIES[0]
        await store.close()

    asyncio.run(main())
    assert not caplog.records


@pytest.mark.parametrize("hole", [1, 2, 3])
def test_what_a_power_cut_leaves_of_the_last_write_is_dropped_whole(tmp_path: Path, hole: int) -> None:
    """Parts of a write reach the disk in any order; the others are zeros."""

    async def main() -> None:
        store, file = await made_file(tmp_path)
        lease = await store.claim("s", this_process())
        size, before = file.stat().st_size, await store.read("s")
        await store.append(lease, [EncodedEntry.of(entry) for entry in (ENTRIES[0], *ENTRIES[1:3])])
        lines = file.read_bytes()[size:].splitlines(keepends=True)
        lines[hole - 1] = bytes(len(lines[hole - 1]) - 9) + lines[hole - 1][-9:]
        await store.release(lease)
        await store.close()
        file.write_bytes(file.read_bytes()[:size] + b"".join(lines))
        again = JsonlStore(file.parent)
        assert await again.read("s") == before
        await (await Journal.resume(again, "s")).close()
        assert file.stat().st_size == size
        await again.close()

    asyncio.run(main())


def test_sessions_without_checksums_open_as_before(tmp_path: Path) -> None:
    async def main() -> None:
        store, file = await made_file(tmp_path)
        before = [record.entry for record in await store.read("s")]
        lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        old = [{key: value for key, value in line.items() if key != "checksum"} for line in lines]
        file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in old))
        journal = await Journal.resume(store, "s")
        await journal.append(ENTRIES[0])
        assert [record.entry for record in await store.read("s")] == [*before, ENTRIES[0]]
        await store.close()
        rows = await rows_changed(tmp_path, "UPDATE entries SET checksum = NULL")
        assert [record.entry for record in await rows.read("s")] == before
        await rows.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET body = replace(body, 'first answer', 'worst answer')",
        "UPDATE entries SET body = CAST(x'7b22ff' AS TEXT) WHERE place & 255 = 3",
        "UPDATE entries SET at = at + 1 WHERE place & 255 = 3",
        "UPDATE entries SET at = 'soon' WHERE place & 255 = 3",
        "UPDATE entries SET body = 5 WHERE place & 255 = 3",
    ],
)
def test_a_changed_row_is_named_and_the_others_are_exported(tmp_path: Path, change: str) -> None:
    async def main() -> None:
        store = await rows_changed(tmp_path, change)
        with pytest.raises(JournalError) as refused:
            await Journal.resume(store, "s")
        assert refused.value.code == "damaged"
        assert "Entry 3" in refused.value.message
        assert "sessions.db, row" in refused.value.message
        found = await store.salvage("s")
        assert [item.seq for item in found if isinstance(item, DamagedEntry)] == [3]
        assert written(found) == [SessionStarted(title="T"), ENTRIES[0], *ENTRIES[2:]]
        await store.close()

    asyncio.run(main())


def test_a_list_with_bytes_that_are_no_text_is_still_a_list(tmp_path: Path) -> None:
    async def main() -> None:
        change = "UPDATE sessions SET title = CAST(x'54ff' AS TEXT), first_words = CAST(x'ff' AS TEXT)"
        store = await rows_changed(tmp_path, change)
        (info,) = await store.find(text="second")
        assert info.title == "T\ufffd"
        await store.close()

    asyncio.run(main())


def test_damaged_pages_of_a_database_cost_only_their_rows(tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store("sqlite", tmp_path)
        journal = await Journal.start(store, SessionStarted(), "s")
        texts = [f"{number} {'x' * 700}" for number in range(200)]
        for text in texts:
            await journal.append(UserSaid(user(text)))
        await journal.close()
        await store.close()
        file = tmp_path / "sessions.db"
        data = bytearray(file.read_bytes())
        for place in (data.index(b"50 xxx"), data.index(b"120 xxx")):
            data[place - place % 4096 : place - place % 4096 + 64] = bytes(64)
        file.write_bytes(data)
        again = open_store("sqlite", tmp_path)
        with pytest.raises(JournalError) as refused:
            await again.read("s")
        assert refused.value.code == "damaged"
        said = [
            entry.message.text for entry in written(await again.salvage("s")) if isinstance(entry, UserSaid)
        ]
        assert 180 < len(said) < 200
        assert set(said) <= set(texts)
        assert {texts[0], texts[80], texts[199]} <= set(said)
        await again.close()

    asyncio.run(main())


def test_no_flipped_bit_of_a_database_raises_anything_else(tmp_path: Path) -> None:
    async def main() -> None:
        await (await made("sqlite", tmp_path)).close()
        file = tmp_path / "sessions.db"
        data = file.read_bytes()
        whole = [SessionStarted(title="T"), *ENTRIES]
        dice = random.Random(3)
        for _ in range(60):
            changed = bytearray(data)
            changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            file.write_bytes(changed)
            store = SQLiteStore(file)
            try:
                await store.find(text="x")
                assert all(entry in whole for entry in written(await store.salvage("s")))
                assert [record.entry for record in await store.read("s")] == whole
                await (await Journal.resume(store, "s")).close()
            except JournalError as error:
                assert error.code in ("damaged", "store_failed", "unknown_session", "newer_store")
            await store.close()
            for other in tmp_path.glob("sessions.db-*"):
                other.unlink()

    asyncio.run(main())


@pytest.mark.parametrize("form", [*FORMS, "anthropic"])
@pytest.mark.parametrize("damaged", range(1, len(ENTRIES) + 2))
def test_everything_before_and_after_a_damaged_entry_is_exported_and_imported(
    tmp_path: Path, damaged: int, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> bytes:
        store, file = await made_file(tmp_path)
        lines = file.read_bytes().splitlines(keepends=True)
        lines[damaged - 1] = lines[damaged - 1].replace(b'"type":"', b'"type":"\xff', 1)
        file.write_bytes(b"".join(lines))
        assert [info.id for info in await store.find()] == ["s"]
        data = await export_session(
            store, "s", form, model="claude-sonnet-4-5" if form == "anthropic" else ""
        )
        await store.close()
        return data

    data = asyncio.run(main())
    assert f"Entry {damaged} of session" in caplog.text
    lost = {2: "first question", 3: "first answer", 5: "second question", 11: "second answer"}
    for seq, text in lost.items():
        assert (text.encode() in data) is (damaged != seq) or form == "journal"
    assert (b"the content of the file" in data) is (damaged != 9) or form == "journal"
    if form not in ("markdown", "html"):  # pages for people
        messages = read_history(data).adopted.conversation.messages
        assert len(messages) >= 4


@pytest.mark.parametrize("kind", DURABLE)
def test_an_import_that_is_killed_leaves_no_session(kind: str, tmp_path: Path) -> None:
    """The first entries are one write: whatever is cut off of it, there is no session."""

    async def main() -> None:
        store = open_store(kind, tmp_path)
        more = (*ENTRIES[:3],)
        nonsense = EncodedEntry(ENTRIES[0], None)  # type: ignore[arg-type]
        encoded = [EncodedEntry.of(entry) for entry in more]
        with pytest.raises((TypeError, AttributeError)):
            await store.create(
                "s", EncodedEntry.of(SessionStarted()), this_process(), more=[*encoded, nonsense]
            )
        assert await store.find() == []
        await store.close()
        if kind == "jsonl":
            whole, file = await made_file(tmp_path / "other")
            first = file.read_bytes().splitlines(keepends=True)
            for cut in range(len(b"".join(first[:4]))):
                file.write_bytes(file.read_bytes()[:0] + b"".join(first)[:cut])
                assert await whole.find() == []
            await whole.close()

    asyncio.run(main())

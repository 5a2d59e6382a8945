"""What a durable entry costs: a journal's append against a bare insert of the same bytes, with the same durability.

Wall time, for the disk is most of it; rounds are interleaved, and medians taken. The bare insert is one statement in
SQLite's WAL with synchronous=FULL, from the same thread: no fence, no list, no search, no event loop.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import msgspec

from bench.histories import agent_like
from segue.conversation.blocks import Text, ToolResult
from segue.conversation.message import Message, user
from segue.sessions.entries import (
    CallBegun,
    CallEnded,
    CallsScheduled,
    Entry,
    ModelReplied,
    SessionStarted,
    SettingsChanged,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.entry_codec import EncodedEntry, encode_entry
from segue.sessions.journal import Journal
from segue.sessions.stores.jsonl import JsonlStore
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import Store

ROUNDS = 9
LONG = 20_000
"""Messages of a long session."""


def run() -> None:
    with TemporaryDirectory(prefix="segue-bench-") as place:
        asyncio.run(_appends(Path(place)))
    with TemporaryDirectory(prefix="segue-bench-") as place:
        asyncio.run(_lists(Path(place)))
    with TemporaryDirectory(prefix="segue-bench-") as place:
        asyncio.run(_opens(Path(place)))


def _entries() -> list[Entry]:
    """What an agent's session writes, without the ends of turns and batches."""
    entries: list[Entry] = []
    for message in agent_like(300).messages:
        if message.speaker == "user":
            entries.append(UserSaid(message))
        elif message.speaker == "model":
            entries += [ModelReplied(message), CallsScheduled(message.calls)]
        else:
            entries += [CallEnded(block) for block in message.blocks]  # type: ignore[arg-type]
    return entries


async def _appends(place: Path) -> None:
    entries = _entries()
    bodies = [encode_entry(entry).decode() for entry in entries]
    size = sum(map(len, bodies)) / len(bodies)
    print(
        f"journal: {len(entries)} entries of {size:.0f} bytes on average, one at a time, durable one by one"
    )
    stores: dict[str, Store] = {
        "SQLite": SQLiteStore(place / "ours.db"),
        "JSONL": JsonlStore(place / "jsonl"),
        "memory": MemoryStore(),
    }
    bare = _open_bare(place / "bare.db")
    subjects: dict[str, Callable[[], Awaitable[float]]] = {"bare": lambda: _insert(bare, bodies)}
    for name, store in stores.items():
        subjects[f"{name} store"] = lambda store=store: _append_to_store(store, entries)  # type: ignore[misc]
        subjects[f"{name} journal"] = lambda store=store: _append_to_journal(store, entries)  # type: ignore[misc]
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(ROUNDS):
        for name, subject in subjects.items():
            taken[name].append(await subject())
    floor = median(taken["bare"])
    print(f"{'':<18}{'entries/s':>11}{'µs each':>10}  × as many per second as the bare insert")
    for name, times in taken.items():
        each = median(times) / len(entries)
        print(f"{name:<18}{1 / each:>11.0f}{each * 1e6:>10.0f}  {floor / median(times):.2f}")
    for store in stores.values():
        await store.close()
    bare.close()


def _open_bare(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE bare (number INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    return connection


async def _insert(connection: sqlite3.Connection, bodies: list[str]) -> float:
    start = perf_counter()
    for body in bodies:
        connection.execute("INSERT INTO bare (body) VALUES (?)", (body,))
    return perf_counter() - start


async def _append_to_store(store: Store, entries: list[Entry]) -> float:
    journal = await Journal.start(store, SessionStarted())
    lease = journal._lease
    start = perf_counter()
    for entry in entries:
        await store.append(lease, (EncodedEntry.of(entry),))
    taken = perf_counter() - start
    await journal.close()
    return taken


async def _append_to_journal(store: Store, entries: list[Entry]) -> float:
    journal = await Journal.start(store, SessionStarted())
    start = perf_counter()
    for entry in entries:
        await journal.append(entry)
    taken = perf_counter() - start
    await journal.close()
    return taken


async def _opens(place: Path) -> None:
    """What it takes to resume a long session: CPU time of reading, checking and replaying all of its entries."""
    print(
        f"open: a session of {LONG:,} messages; seconds of CPU per 100,000 messages, against parsing their JSON alone, "
        "and for one more entry"
    )
    for what, entries in (("chat", _talk(LONG)), ("agent", _work(LONG))):
        bodies = [encode_entry(entry) for entry in entries]
        for name, store in (
            ("SQLite", SQLiteStore(place / f"{what}.db")),
            ("JSONL", JsonlStore(place / what)),
        ):
            lease = (await Journal.start(store, SessionStarted(), "long"))._lease
            for first in range(0, len(entries), 1000):
                encoded = [EncodedEntry.of(entry) for entry in entries[first : first + 1000]]
                await store.append(lease, encoded)
            await store.release(lease)
            taken, one_more, floor = [], [], []
            for _ in range(5):
                start = process_time()
                for body in bodies:
                    msgspec.json.decode(body)
                floor.append(process_time() - start)
                start = process_time()
                journal = await Journal.resume(store, "long")
                taken.append(process_time() - start)
                for _ in range(20):
                    start = process_time()
                    await journal.append(SettingsChanged(title="T"))
                    one_more.append(process_time() - start)
                await journal.close()
                del journal  # else the next round would pay for freeing it
            await store.close()
            seconds = min(taken) * 100_000 / LONG
            each = f"{seconds:.2f} s, {min(taken) / min(floor):.1f} ×, {min(one_more) * 1e6:.0f} µs"
            print(f"  {what:<6}{name:<8}{len(entries):>8,} entries  {each}")


def _talk(length: int) -> list[Entry]:
    """Questions and answers."""
    entries: list[Entry] = []
    for number in range(length // 2):
        answer = Message("model", (Text(f"An answer of some words, number {number}. " * 10),))
        entries += [UserSaid(user(f"question {number}")), ModelReplied(answer), TurnEnded()]
    return entries


def _work(length: int) -> list[Entry]:
    """What an agent's session writes, all of it."""
    entries: list[Entry] = []
    for message in agent_like(length).messages:
        ids = tuple(block.call_id for block in message.blocks if isinstance(block, ToolResult))
        if message.speaker == "user":
            entries += [TurnEnded(), UserSaid(message)] if entries else [UserSaid(message)]
        elif message.speaker == "model":
            begun = (CallBegun(call.id) for call in message.calls)
            entries += [ModelReplied(message, "tool_calls"), CallsScheduled(message.calls), *begun]
        else:
            entries += [CallEnded(block) for block in message.blocks if isinstance(block, ToolResult)]
            entries.append(ToolsAnswered(ids))
    return [*entries, TurnEnded()]


async def _lists(place: Path) -> None:
    store = SQLiteStore(place / "many.db")
    lease = (await Journal.start(store, SessionStarted(), "first"))._lease
    await store.append(lease, [EncodedEntry.of(entry) for entry in _entries()[:60]])
    await store.close()
    _multiply(place / "many.db", 10_000)
    again = SQLiteStore(place / "many.db")
    await again.find(limit=1)
    print("SQLite with 10,000 sessions of 60 entries:")
    for name, text in (
        ("list of 50", ""),
        ("search, found in all", "word1"),
        ("search, found nowhere", "zyx"),
    ):
        start = perf_counter()
        await again.find(text=text)
        print(f"  {name:<24}{(perf_counter() - start) * 1e3:>8.1f} ms")
    await again.close()


def _multiply(file: Path, count: int) -> None:
    """Copies of the first session; entries are left out, lists and searches do not read them."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA synchronous = OFF")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(sessions)")][2:]
    copied = ", ".join(columns)
    connection.execute(
        f"""WITH RECURSIVE n (i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < {count})
        INSERT INTO sessions (id, {copied}) SELECT 'copy-' || i, {copied} FROM n, sessions"""  # noqa: S608
    )
    connection.execute(
        "INSERT INTO said (session, words) SELECT number, words FROM sessions, said WHERE said.session = 1 AND number > 1"
    )
    connection.commit()
    connection.close()


if __name__ == "__main__":
    run()

"""PostgreSQL itself, killed at random moments while several sessions are written: nothing acknowledged is lost, nothing is
written twice."""

from __future__ import annotations

import asyncio
import random
from itertools import count

from msgspec import Struct

from postgres_server import PostgresServer
from segue.conversation.message import user
from segue.sessions.entries import SessionStarted, TurnEnded, UserSaid
from segue.sessions.journal import Journal
from segue.sessions.stores.postgres import PostgresStore

WRITERS = 4


class DatabaseKills(Struct):
    """What happened."""

    kills: int = 0
    acknowledged: int = 0
    longest_pause: float = 0.0
    """Seconds that an append took at most: the database had to come back."""


def kill_database(server: PostgresServer, kills: int, seed: int) -> DatabaseKills:
    return asyncio.run(_kill_database(server, kills, seed))


async def _kill_database(server: PostgresServer, kills: int, seed: int) -> DatabaseKills:
    found = DatabaseKills()
    chance = random.Random(seed)
    store = PostgresStore(server.url(), patience=120)
    over = asyncio.Event()
    sessions = [f"s{number}" for number in range(WRITERS)]
    writers = [asyncio.ensure_future(_write(store, name, over, found)) for name in sessions]
    while found.kills < kills:
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        await asyncio.to_thread(server.kill)
        found.kills += 1
        await asyncio.to_thread(server.start)
    over.set()
    written = await asyncio.gather(*writers)
    await store.close()
    again = PostgresStore(server.url())
    for name, acknowledged in zip(sessions, written, strict=True):
        said = [record.entry for record in await again.read(name)]
        texts = [entry.message.text for entry in said if isinstance(entry, UserSaid)]
        # Every text is another one: so all are there, in order, and none is there twice.
        assert texts == [f"{number}" for number in range(acknowledged)], name
        found.acknowledged += acknowledged
    await again.close()
    return found


async def _write(store: PostgresStore, name: str, over: asyncio.Event, found: DatabaseKills) -> int:
    journal = await Journal.start(store, SessionStarted(), name)
    loop = asyncio.get_running_loop()
    async with journal.hold():
        for number in count():
            if over.is_set():
                break
            began = loop.time()
            await journal.append(UserSaid(user(f"{number}")), TurnEnded())
            found.longest_pause = max(found.longest_pause, loop.time() - began)
    assert journal.state.last_seq == 1 + 2 * number
    await journal.close()
    return number

"""The worker of a Restate server, killed at random moments while many agents work: no effect twice, no turn lost, none stuck."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

from msgspec import Struct

from integrations.engine_agents import open_store
from integrations.restate_server import RestateWorld, restate_world
from segue.sessions.entries import CallEnded, TurnEnded, UserSaid

AGENTS = 20


class RestateKills(Struct):
    """What happened."""

    kills: int = 0
    turns: int = 0
    effects: int = 0
    interrupted: int = 0


def kill_workers(folder: Path, kills: int, seed: int) -> RestateKills:
    found, chance = RestateKills(), random.Random(seed)
    with restate_world(folder) as world:
        sent: Counter[str] = Counter()
        while found.kills < kills:
            if not _running(world):
                for number in range(AGENTS):
                    world.ask(f"/Agent/agent-{number}/send/send", f"Message {sent.total()}.")
                    sent[f"agent-{number}"] += 1
            time.sleep(chance.choice((0.3, 1.5, 2.5)) + chance.random())
            world.kill_worker()
            found.kills += 1
            world.start_worker()
        world.until(lambda: not _running(world), 300)
    found.turns = sent.total()
    asyncio.run(_check(folder, sent, found))
    return found


def _running(world: RestateWorld) -> int:
    query = {"query": "SELECT count(*) AS running FROM sys_invocation WHERE status != 'completed'"}
    answer = world.ask("/query", query, port=world.admin, headers={"accept": "application/json"})
    return int(answer["rows"][0]["running"])


async def _check(folder: Path, sent: Counter[str], found: RestateKills) -> None:
    effects = Counter((folder / "effects").read_text().split("\n")[:-1])
    assert max(effects.values()) == 1, [line for line, times in effects.items() if times > 1]
    found.effects = len(effects)
    store = open_store(folder, "")
    for session, turns in sent.items():
        entries = [record.entry for record in await store.read(session)]
        keys = [entry.key for entry in entries if isinstance(entry, UserSaid)]
        assert len(keys) == len(set(keys)) == turns
        assert [entry.finish for entry in entries if isinstance(entry, TurnEnded)] == ["complete"] * turns
        found.interrupted += sum(
            isinstance(entry, CallEnded) and entry.result.reason == "interrupted" for entry in entries
        )
    await store.close()

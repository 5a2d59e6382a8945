"""Workers of DBOS that are killed at random moments, while many agents work: no effect twice, no turn lost, none stuck."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import IO

from dbos import DBOSClient, EnqueueOptions
from msgspec import Struct

from integrations.engine_agents import open_store
from segue.conversation.blocks import ToolResult
from segue.sessions.entries import CallEnded, TurnEnded, UserSaid

AGENTS = 20
WORKERS = 2


class EngineKills(Struct):
    """What happened."""

    kills: int = 0
    turns: int = 0
    effects: int = 0
    interrupted: int = 0
    """Calls that began and did not end: whether they had an effect is not known."""


class _Worker:
    def __init__(self, folder: Path, number: int, url: str, database: str) -> None:
        self._words = [str(folder), f"worker-{number}", url, *([database] if database else [])]
        self._log: IO[bytes] = (folder / f"worker-{number}.log").open("ab+")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        tests = Path(__file__).parent.parent
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "integrations.dbos_worker", *self._words],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": str(tests)},
        )

    def close(self) -> None:
        self._log.close()

    def await_ready(self) -> None:
        deadline = time.monotonic() + 60
        while b"ready\n" not in self._written():
            assert time.monotonic() < deadline, self._written()[-2000:]
            time.sleep(0.1)

    def _written(self) -> bytes:
        self._log.seek(0)
        return self._log.read()

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)


def kill_workers(folder: Path, url: str, database: str, kills: int, seed: int) -> EngineKills:
    """`url`: where DBOS keeps its steps; `database`: where sessions are, if not in a file."""
    found, chance = EngineKills(), random.Random(seed)
    workers = [_Worker(folder, number, url, database) for number in range(WORKERS)]
    for worker in workers:  # the first makes the tables
        worker.start()
        worker.await_ready()
    client = DBOSClient(system_database_url=url)
    sent: dict[str, str] = {}
    try:
        while found.kills < kills:
            _keep_busy(client, sent)
            # Now and then long enough for a worker to come to its work; the time of a step is hit at random.
            time.sleep(chance.choice((0.3, 1.5, 2.5)) + chance.random())
            worker = chance.choice(workers)
            worker.kill()
            found.kills += 1
            worker.start()
        _await_all(client, sent, 300)
    finally:
        for worker in workers:
            worker.kill()
            worker.close()
        client.destroy()
    found.turns = len(sent)
    asyncio.run(_check(folder, database, sent, found))
    return found


def _keep_busy(client: DBOSClient, sent: dict[str, str]) -> None:
    open_turns = Counter(sent[turn] for turn in _unfinished(client, sent))
    for number in range(AGENTS):
        session = f"agent-{number}"
        if not open_turns[session]:
            turn = f"{session}-{len(sent)}"
            options: EnqueueOptions = {
                "workflow_name": "segue.agents.turn",
                "queue_name": "segue.agents.turns",
                "workflow_id": turn,
                "queue_partition_key": session,
                "app_version": "1",
            }
            client.enqueue(options, session, f"message {len(sent)}")
            sent[turn] = session


def _unfinished(client: DBOSClient, sent: dict[str, str]) -> list[str]:
    status = (
        {one.workflow_id: one.status for one in client.list_workflows(workflow_ids=list(sent))}
        if sent
        else {}
    )
    assert "ERROR" not in status.values(), [turn for turn, word in status.items() if word == "ERROR"]
    return [turn for turn in sent if status.get(turn) != "SUCCESS"]


def _await_all(client: DBOSClient, sent: dict[str, str], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while stuck := _unfinished(client, sent):
        assert time.monotonic() < deadline, f"stuck: {stuck}"
        time.sleep(0.5)


async def _check(folder: Path, database: str, sent: dict[str, str], found: EngineKills) -> None:
    effects = Counter((folder / "effects").read_text().split("\n")[:-1])
    assert max(effects.values()) == 1, [line for line, times in effects.items() if times > 1]
    found.effects = len(effects)
    store = open_store(folder, database)
    done = set(effects)
    for session in set(sent.values()):
        entries = [record.entry for record in await store.read(session)]
        said = [entry.key for entry in entries if isinstance(entry, UserSaid)]
        assert sorted(said) == sorted(turn for turn in sent if sent[turn] == session)
        ends = [entry.finish for entry in entries if isinstance(entry, TurnEnded)]
        assert ends == ["complete"] * len(said), ends
        for entry in entries:
            if isinstance(entry, CallEnded):
                result: ToolResult = entry.result
                found.interrupted += result.reason == "interrupted"
                if result.name == "send" and result.reason is None:
                    assert any(line.startswith(f"{session} {result.call_id} ") for line in done)
    await store.close()

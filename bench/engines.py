"""What an engine costs: CPU of a step against a plain chat in the same run, and steps per second with 1, 2 and 4 workers."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from integrations.dbos_kills import dbos_engine
from integrations.engine_agents import ROUNDS as EXCHANGES_WITH_CALLS
from integrations.engine_agents import Agents
from integrations.engine_kills import Engine, until
from integrations.restate_server import program, restate_engine
from segue.chat.steps import Done

STEPS = 2 * EXCHANGES_WITH_CALLS + 2
"""Of a turn: its beginning, the requests, the calls of all replies but the last."""
TURNS_OF_A_ROUND = 5
ROUNDS = 7
WORKERS = (1, 2, 4)
TURNS = 60


def run() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        asyncio.run(_overhead(Path(place)))
    for name in ("dbos-sqlite", "dbos-postgres", "restate"):
        _throughput(name)


async def _overhead(folder: Path) -> None:
    from dbos import DBOS

    from segue.integrations.dbos import DBOSAgents

    agents = Agents(folder)
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/dbos.db",
            "log_level": "ERROR",
            "notification_listener_polling_interval_sec": 60.0,
        }
    )
    engine = DBOSAgents(agents.chat, polling_seconds=0.05)
    DBOS.launch()
    await engine.register_queues_async()
    numbers = iter(range(1_000_000))

    async def kept_open() -> None:
        async with agents.chat(f"s{next(numbers)}") as chat:
            for _ in range(TURNS_OF_A_ROUND):
                await chat.send("Go.")

    async def by_steps() -> None:
        session = f"s{next(numbers)}"
        for number in range(TURNS_OF_A_ROUND):
            chat = agents.chat(session).stepwise(str(number))
            step = await chat.begin("Go.")
            while not isinstance(step, Done):
                await chat.close()
                chat = agents.chat(session).stepwise(str(number))
                step = await chat.perform(step)
            await chat.close()

    async def by_dbos() -> None:
        session = f"s{next(numbers)}"
        for _ in range(TURNS_OF_A_ROUND):
            await (await engine.send(session, "Go.")).get_result(polling_interval_sec=0.02)

    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "a chat that stays open": kept_open,
        "steps, each in a chat of its own": by_steps,
        "DBOS on SQLite": by_dbos,
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        await way()
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = process_time()
            await way()
            taken[name].append(process_time() - start)
    DBOS.destroy()
    steps = TURNS_OF_A_ROUND * STEPS
    plain = median(taken["a chat that stays open"])
    print(
        f"engines: CPU of a step, sessions in SQLite, median of {ROUNDS} interleaved rounds of {steps} steps"
    )
    print(f"{'':>34} {'ms':>7} {'× a chat':>9}")
    for name, times in taken.items():
        print(f"{name:>34} {1000 * median(times) / steps:>7.2f} {median(times) / plain:>9.1f}")


def _throughput(name: str) -> None:
    if name == "restate" and program() is None:
        print("restate: no server; `make restate-server` installs one")
        return
    speeds = []
    for workers in WORKERS:
        with tempfile.TemporaryDirectory(prefix="segue-", dir="/tmp") as place:
            folder = Path(place)
            made: AbstractContextManager[Engine] = (
                restate_engine(folder, seconds=0.0, workers=workers)
                if name == "restate"
                else dbos_engine(folder, name.removeprefix("dbos-"), seconds=0.0, workers=workers)
            )
            with made as engine:
                try:
                    for worker in engine.workers:
                        worker.start()
                        worker.await_ready()
                    start = time.monotonic()
                    turns = {engine.send(f"agent-{number}", "Go.") for number in range(TURNS)}
                    until(partial(_are_done, engine, turns), 300, lambda: "stuck")
                    speeds.append(TURNS * STEPS / (time.monotonic() - start))
                finally:
                    for worker in engine.workers:
                        worker.close()
    shown = ", ".join(f"{speed:.0f} with {count}" for count, speed in zip(WORKERS, speeds, strict=True))
    print(f"{name}: steps per second of {TURNS} agents by workers: {shown}")


def _are_done(engine: Engine, turns: set[str]) -> bool:
    return not engine.unfinished(turns)

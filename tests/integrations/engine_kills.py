"""Workers of an engine that are killed at random moments, while many agents work: no effect twice, no turn lost, none stuck.

Calls and replies take their time, so that most kills hit some of them in their middle; how many is counted.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from integrations.engine_agents import ROUNDS, Doing, World, open_store
from segue.conversation.blocks import ToolResult
from segue.sessions.entries import CallEnded, TurnEnded, UserSaid
from segue.sessions.stores.store import Store

AGENTS = 20
WORKERS = 2
SECONDS = 0.8
"""What a call or a reply takes at most."""
_TURNS = 8
"""Of a session; then its agent begins another one."""
_TESTS = Path(__file__).parent.parent


class EngineKills(Struct):
    """What happened."""

    kills: int = 0
    turns: int = 0
    effects: int = 0
    outages: int = 0
    """How often the database or the server of the engine was away."""
    hit: Counter[str] = {}  # type: ignore[assignment]
    """What was under way in a process when it was killed: calls of `send` and `look`, replies to `ask`."""
    hit_after_effect: int = 0
    """Calls that had had their effect already, and no result yet."""
    interrupted: int = 0
    repeated: int = 0
    """Calls that may be repeated, and were."""

    def __str__(self) -> str:
        under_way = ", ".join(f"{count} of {what}" for what, count in sorted(self.hit.items()))
        return (
            f"{self.kills} kills and {self.outages} outages; {AGENTS} agents on {WORKERS} workers; {self.turns} turns, none lost or "
            f"stuck; {self.effects} effects, none twice; kills hit {under_way} in the middle ({self.hit_after_effect} sends after "
            f"their effect); {self.interrupted} sends interrupted, {self.repeated} looks repeated"
        )


class Worker:
    """A process that performs steps until it is killed. It is forked from one that has imported everything, to save that time."""

    def __init__(self, folder: Path, number: int, module: str, *words: str) -> None:
        self._words = [sys.executable, "-m", "integrations.forked_worker", module, *words]
        self._place = folder / f"worker-{number}.log"
        self._parent: subprocess.Popen[str] | None = None
        self._begun_at = 0

    def start(self) -> None:
        if self._parent is None:
            with self._place.open("ab") as log:
                self._parent = subprocess.Popen(  # noqa: S603 - our own module
                    self._words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    bufsize=1,
                    env={**os.environ, "PYTHONPATH": str(_TESTS)},
                )
        self._begun_at = self._place.stat().st_size
        self._tell("start")

    @property
    def ready(self) -> bool:
        return b"ready\n" in self._place.read_bytes()[self._begun_at :]

    def is_ready(self) -> bool:
        self.revive()
        return self.ready

    def revive(self) -> None:
        """What the supervisor of a machine does, if it ended by itself because the database was away when it started."""
        if b"ended\n" in self._place.read_bytes()[self._begun_at :]:
            self.start()

    def await_ready(self) -> None:
        until(self.is_ready, 120, lambda: self._place.read_bytes()[-2000:])

    def kill(self) -> None:
        if self._parent is not None:
            self._tell("kill")

    def last_words(self) -> str:
        """Of its present life."""
        return self._place.read_bytes()[self._begun_at :].decode(errors="replace")[-3000:]

    def close(self) -> None:
        """For good."""
        if (parent := self._parent) is not None:
            self._parent = None
            parent.communicate(timeout=30)

    def _tell(self, word: str) -> None:
        assert self._parent is not None
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{word}\n")
        answered = self._parent.stdout.readline()
        assert answered == "done\n", self._place.read_bytes()[-2000:]


def until(done: Callable[[], object], seconds: float, why: Callable[[], object]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, why()
        time.sleep(0.1)


class Engine(Protocol):
    """One that is tried."""

    workers: list[Worker]
    database: str
    """Where sessions are, if not in a file."""

    def send(self, session: str, text: str) -> str:
        """Returns the key of the turn."""

    def unfinished(self, turns: Collection[str]) -> set[str]:
        """Raises where one has failed."""

    def described(self, turns: Collection[str]) -> str:
        """What the engine knows of turns that do not end."""

    def fail(self, chance: random.Random) -> bool:
        """Let the database or the server be away for a while; False if there is none."""


def kill_workers(engine: Engine, folder: Path, kills: int, seed: int, minutes: float = 600.0) -> EngineKills:
    """The engine runs; its workers do not yet. They are dead afterwards. `minutes`: kill for no longer."""
    deadline = time.monotonic() + 60 * minutes
    found, chance, crowd = EngineKills(hit=Counter()), random.Random(seed), Crowd(engine)
    try:
        for worker in engine.workers:
            worker.start()
            worker.await_ready()  # the first makes the tables
        while found.kills < kills and time.monotonic() < deadline:
            crowd.keep_busy()
            for worker in engine.workers:
                worker.revive()
            kill_some(engine.workers, chance, found)
            if found.kills % 10 == 0 and engine.fail(chance):
                found.outages += 1
        for worker in engine.workers:
            worker.await_ready()
        crowd.keep_busy()
        found.outages += engine.fail(chance)  # no worker starts again after this one
        crowd.await_all(300)
    finally:
        for worker in engine.workers:
            worker.close()
    found.turns = len(crowd.sent)
    asyncio.run(_check(folder, engine.database, crowd.sent, found))
    return found


def kill_some(workers: list[Worker], chance: random.Random, found: EngineKills) -> None:
    """Mostly one that is at work, now and then one that just starts, or all at once."""
    killed = workers if chance.random() < 0.1 else [chance.choice(workers)]
    if chance.random() < 0.85:
        for worker in killed:
            worker.await_ready()
    time.sleep(chance.uniform(0.0, 2.5))
    for worker in killed:
        worker.kill()
        found.kills += 1
    time.sleep(chance.choice((0.0, 0.0, 1.0)))
    for worker in killed:
        worker.start()


class Crowd:
    """Agents, each of which has a turn at all times."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open: dict[str, int] = {}
        self._turns = Counter[int]()
        self.sent: dict[str, str] = {}
        """The session of each turn."""

    def keep_busy(self) -> None:
        self._see_who_is_done()
        for agent in set(range(AGENTS)) - set(self._open.values()):
            session = f"agent-{agent}-{self._turns[agent] // _TURNS}"
            turn = self._engine.send(session, f"Message {len(self.sent)}.")
            self._turns[agent] += 1
            self._open[turn], self.sent[turn] = agent, session

    def await_all(self, seconds: float) -> None:
        until(lambda: not self._see_who_is_done(), seconds, self._stuck)

    def _stuck(self) -> str:
        logs = "\n".join(worker.last_words() for worker in self._engine.workers)
        return f"stuck: {self._engine.described(self._open.keys())}\n{logs}"

    def _see_who_is_done(self) -> Collection[str]:
        still = self._engine.unfinished(self._open.keys())
        self._open = {turn: agent for turn, agent in self._open.items() if turn in still}
        return still


async def _check(folder: Path, database: str, sent: Mapping[str, str], found: EngineKills) -> None:
    doings = World(folder).all()
    calls: dict[tuple[str, str], list[Doing]] = {}
    for one in doings:
        calls.setdefault((one.session, one.call_id), []).append(one)
        if not one.ended:
            found.hit[one.what] += 1
            found.hit_after_effect += one.had_effect
    found.effects = sum(one.had_effect for one in doings)
    store = open_store(folder, database)
    results = dict[tuple[str, str], ToolResult]()
    for session in sorted(set(sent.values())):
        keys = sorted(turn for turn, its_session in sent.items() if its_session == session)
        results |= await _checked_session(store, session, keys)
    await store.close()
    for place, result in results.items():
        _check_call(result, calls.pop(place, []), found)
    del calls["-", "-"]  # replies
    assert not calls, f"ran and have no result: {sorted(calls)}"


async def _checked_session(store: Store, session: str, keys: list[str]) -> dict[tuple[str, str], ToolResult]:
    """Its results, if it has every turn once, complete, and one result for each call."""
    entries = [record.entry for record in await store.read(session)]
    assert sorted(entry.key for entry in entries if isinstance(entry, UserSaid)) == keys, session
    ends = [entry.finish for entry in entries if isinstance(entry, TurnEnded)]
    assert ends == ["complete"] * len(keys), (session, ends)
    results = [entry.result for entry in entries if isinstance(entry, CallEnded)]
    assert len(results) == len({result.call_id for result in results}) == 2 * ROUNDS * len(keys), session
    return {(session, result.call_id): result for result in results}


def _check_call(result: ToolResult, tries: list[Doing], found: EngineKills) -> None:
    """What its result says is what happened: done once and wholly, or begun at most once and interrupted; a look may be repeated."""
    if result.name == "look":
        assert result.reason is None, result
        assert tries, result
        assert tries[-1].ended, result
        found.repeated += len(tries) > 1
    elif result.reason is None:
        assert [(one.had_effect, one.ended) for one in tries] == [(True, True)], (result, tries)
    else:
        assert result.reason == "interrupted", result
        assert len(tries) <= 1, (result, tries)
        found.interrupted += 1

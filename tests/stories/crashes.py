"""Kills processes that chat, at random moments, and looks at what they leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from segue.conversation.blocks import is_real
from segue.errors import JournalError
from segue.sessions.entries import CallBegun, CallEnded, ModelReplied, Record, UserSaid
from segue.sessions.state import State, replay
from sessions.stores_under_test import open_store
from stories.crash_child import EFFECTS, digest
from stories.machine_world import SINGLE, WORD, World

LONGEST_LIFE = 0.12
"""Seconds. A turn takes a tenth of it."""
KILLS_PER_SESSION = 8
"""Then another one begins: the requests of a session that was killed for ever would be judged for ever."""


class Found(Struct):
    """What all the kills came to."""

    kills: int = 0
    acknowledged: int = 0
    """Events that promised something durable."""
    effects: int = 0
    """Calls whose tool did something."""
    cut_off: int = 0
    """Turns that were closed by whoever came next."""
    interrupted: int = 0
    """Calls that were in flight."""
    before_opening: int = 0
    """Lives that ended before there was a session."""

    @property
    def met_every_phase(self) -> bool:
        """How much happens in a life depends on the machine: a slow one needs more of them."""
        return self.acknowledged > self.kills and min(self.effects, self.cut_off, self.interrupted) > 0


def kill_again_and_again(kind: str, place: Path, kills: int, seed: int, most: int = 0) -> Found:
    """Raises AssertionError where something acknowledged is lost, a tool ran twice, or a session cannot go on.

    `most`: so many kills, if not every phase of a turn was met before."""
    dice = random.Random(seed)
    found = Found()
    asyncio.run(_open_once(kind, place))
    with _nursery(kind, place) as (orders, answers):
        for number in range(max(kills, most)):
            if number >= kills and found.met_every_phase:
                break
            session = f"s{number // KILLS_PER_SESSION}"
            orders.write(f"{session} {number}\n".encode())
            orders.flush()
            # On a machine that is slow today little happens in a life: the later ones are longer.
            life = dice.uniform(0, LONGEST_LIFE * max(1.0, number / kills))
            # One in eight is killed while it opens the session, which may be while it closes what the last one left.
            told = _one_life(answers, life, opened=dice.random() > 1 / 8)
            asyncio.run(_look(kind, place, session, told, found))
            found.kills += 1
            found.effects = len(_effects(place))
    return found


async def _open_once(kind: str, place: Path) -> None:
    """A server that one of the killed had started would end with it."""
    await open_store(kind, place).close()


def _one_life(answers: IO[bytes], seconds: float, *, opened: bool) -> list[dict[str, Any]]:
    """What a process said before it was killed: so many seconds after its birth, or after it opened the session."""
    child = json.loads(answers.readline())["born"]
    told: list[dict[str, Any]] = [json.loads(answers.readline())] if opened else []
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    for line in answers:
        said = json.loads(line)
        if "dead" in said:
            break
        told.append(said)
    return told


async def _look(kind: str, place: Path, session: str, told: list[dict[str, Any]], found: Found) -> None:
    store = open_store(kind, place)
    try:
        records = await store.read(session)
    except JournalError as error:
        assert error.code == "unknown_session"
        assert not told
        found.before_opening += 1
        await store.close()
        return
    before = replay(records)
    _nothing_acknowledged_is_lost(records, told)
    _no_tool_ran_twice(records, _effects(place), session)
    world = World()
    # The process that had it is dead, so nobody has to be asked.
    async with world.chat("openai/gpt-4.1", store, session) as chat:
        for call_id in before.open_calls():
            result = chat.ledger[call_id].result
            assert result is not None
            assert result.reason == "interrupted"
        assert not chat.journal.state.in_turn
        assert all(interaction.finished for interaction in chat.ledger.values())
        assert _ends(before).items() <= _ends(chat.journal.state).items()
        for name in SINGLE:
            _, complaint = world.judge(chat, name)
            assert not complaint, f"{name}: {complaint}"
    await store.close()
    found.acknowledged += len(told)
    found.cut_off += before.in_turn
    found.interrupted += len(before.open_calls())


def _ends(state: State) -> dict[str, str]:
    return {call_id: digest(one.result) for call_id, one in state.ledger.items() if one.result is not None}


def _nothing_acknowledged_is_lost(records: list[Record], told: list[dict[str, Any]]) -> None:
    entries = [record.entry for record in records]
    ends = _ends(replay(records))
    asked = {word for e in entries if isinstance(e, UserSaid) for word in WORD.findall(e.message.text)}
    replied = {word for e in entries if isinstance(e, ModelReplied) for word in WORD.findall(e.message.text)}
    scheduled = set(replay(records).ledger)
    for event in told:
        if "call" in event:
            assert event["call"] in scheduled, event
        if "result" in event:
            assert ends[event["call"]] == event["result"], event
        if "asked" in event:
            assert event["asked"] in asked, event
            assert set(WORD.findall(event["shown"])) <= replied, event


def _no_tool_ran_twice(records: list[Record], effects: Counter[tuple[str, str]], session: str) -> None:
    assert all(times == 1 for times in effects.values()), effects.most_common(3)
    mine = {call_id for of, call_id in effects if of == session}
    begun = {record.entry.call_id for record in records if isinstance(record.entry, CallBegun)}
    assert mine <= begun, "a tool ran that the journal does not know of"
    ended = [record.entry.result for record in records if isinstance(record.entry, CallEnded)]
    real = {result.call_id for result in ended if is_real(result) and result.error is None}
    assert real <= mine, "a result is there whose tool never ran"


def _effects(place: Path) -> Counter[tuple[str, str]]:
    file = place / EFFECTS
    lines = file.read_text().split("\n") if file.exists() else []
    return Counter((line.split()[0], line.split()[1]) for line in lines if line)


@contextmanager
def _nursery(kind: str, place: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-m", "stories.crash_child", kind, str(place)]
    with subprocess.Popen(  # noqa: S603
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdin, process.stdout
        finally:
            process.stdin.close()

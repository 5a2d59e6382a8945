"""Processes that write and are killed, or stall for so long that others take over.

Run by itself it kills for longer: `PYTHONPATH=tests python -m sessions.crash 200`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Message, user
from segue.errors import JournalError
from segue.sessions.entries import (
    CallBegun,
    CallEnded,
    CallsScheduled,
    Entry,
    ModelReplied,
    SessionStarted,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.entry_codec import EncodedEntry, encode_entry
from segue.sessions.journal import Journal
from segue.sessions.leases import this_process
from segue.sessions.state import replay
from sessions.stores_under_test import DURABLE, open_store

SESSION = "crashing"


def _turn(number: int, dice: random.Random) -> list[list[Entry]]:
    """A turn as the runtime writes it: each inner list in one go."""
    ids = [f"c{number * 10 + index}" for index in range(dice.randint(1, 4))]
    calls = tuple(ToolCall(call_id, "read", {"path": "x" * dice.randint(0, 9000)}) for call_id in ids)
    writes: list[list[Entry]] = [
        [UserSaid(user(f"question {number}"))],
        [ModelReplied(Message("model", (Text("Let me see."), *calls)), "tool_calls")],
        [CallsScheduled(calls), *(CallBegun(call_id) for call_id in ids)],
    ]
    writes += [[CallEnded(ToolResult(call_id, "read", "y" * dice.randint(0, 9000)))] for call_id in ids]
    writes.append([ToolsAnswered(tuple(ids))])
    writes.append([ModelReplied(Message("model", (Text("Done."),))), TurnEnded()])
    return writes


def digest(entry: Entry) -> str:
    return sha256(encode_entry(entry)).hexdigest()[:16]


def write_until_killed(kind: str, place: Path, seed: int) -> None:
    """Resume, then write and acknowledge what is durable, for ever."""

    async def main() -> None:
        store = open_store(kind, place)
        journal = await Journal.resume(store, SESSION)
        dice = random.Random(seed)
        while True:
            for write in _turn(journal.state.last_seq, dice):
                await journal.append(*write)
                first = journal.state.last_seq - len(write) + 1
                _tell([(seq, digest(entry)) for seq, entry in enumerate(write, first)])

    asyncio.run(main())


def serve_writers(kind: str, place: Path) -> None:
    """Fork a writer for every line that comes in. Nothing has to be imported again, so a kill takes milliseconds."""
    for seed in sys.stdin:
        writer = os.fork()
        if writer == 0:
            write_until_killed(kind, place, int(seed))
        _tell({"writer": writer})
        os.waitpid(writer, 0)
        _tell({"dead": writer})


def _tell(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")  # whole or not at all: it is short, and stdout is a pipe


def kill_again_and_again(kind: str, place: Path, kills: int, seed: int) -> tuple[int, int]:
    """How many entries were acknowledged over all kills, and how many turns were cut off. Raises if one was lost."""
    asyncio.run(_begin(kind, place))
    dice = random.Random(seed)
    acknowledged: dict[int, str] = {}
    cut_off = 0
    with _started("serve", kind, str(place)) as (orders, answers):
        for number in range(kills):
            orders.write(b"%d\n" % (seed + number))
            orders.flush()
            acknowledged |= _kill_one(answers, after=dice.uniform(0, 0.04))
            cut_off += asyncio.run(_check(kind, place, acknowledged))
    return len(acknowledged), cut_off


def _kill_one(answers: IO[bytes], *, after: float) -> dict[int, str]:
    writer = json.loads(answers.readline())["writer"]
    acknowledged = dict(json.loads(answers.readline()))  # it writes; any moment is as good as another
    time.sleep(after)
    os.kill(writer, signal.SIGKILL)
    for line in answers:
        told = json.loads(line)
        if isinstance(told, dict):
            break
        acknowledged |= dict(told)
    return acknowledged


@contextmanager
def _started(*words: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """This module as a program of its own: what it reads, what it says."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-m", "sessions.crash", *words]
    with subprocess.Popen(  # noqa: S603
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdin, process.stdout
        finally:
            process.stdin.close()


async def _begin(kind: str, place: Path) -> None:
    store = open_store(kind, place)
    await (await Journal.start(store, SessionStarted(), SESSION)).close()
    await store.close()


async def _check(kind: str, place: Path, acknowledged: dict[int, str]) -> bool:
    """Whether a turn was cut off. Everything acknowledged is there, and the session goes on."""
    store = open_store(kind, place)
    records = await store.read(SESSION)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    kept = {record.seq: digest(record.entry) for record in records}
    lost = {seq for seq, known in acknowledged.items() if kept.get(seq) != known}
    assert not lost, f"acknowledged, but lost: {sorted(lost)}"
    before = replay(records)
    journal = await Journal.resume(store, SESSION)  # at once: the process that had it is dead
    assert not journal.state.in_turn
    assert journal.state.open_calls() == ()
    assert replay(await store.read(SESSION)) == journal.state
    await journal.close()
    await store.close()
    return before.in_turn


def write_and_stall(kind: str, place: Path, writer: int, lease_seconds: float) -> None:
    """Claim whenever it is free, write a little, sometimes sleep through the lease; tell what was acknowledged."""

    async def main() -> None:
        store = open_store(kind, place, lease_seconds)
        dice = random.Random(writer)
        acknowledged: list[tuple[int, int]] = []
        refused = {"fenced": 0, "session_busy": 0}
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            try:
                lease = await store.claim(SESSION, this_process())
                for _ in range(dice.randint(1, 5)):
                    said = UserSaid(user(f"{lease.epoch} {writer}"))
                    acknowledged.append((await store.append(lease, [EncodedEntry.of(said)]), lease.epoch))
                    if dice.random() < 0.25:
                        time.sleep(lease_seconds * 2)  # the whole process stalls
                if dice.random() < 0.5:
                    await store.release(lease)
            except JournalError as error:
                refused[error.code] += 1
                await asyncio.sleep(dice.uniform(0, lease_seconds / 3))
        await store.close()
        _tell((acknowledged, refused))

    asyncio.run(main())


def stall_beside_each_other(kind: str, place: Path, writers: int, lease_seconds: float) -> dict[str, int]:
    """Several processes on one session. Raises if a number is missing or given twice, or an epoch goes back."""
    asyncio.run(_begin(kind, place))
    with ExitStack() as stack:
        started = [
            stack.enter_context(_started("stall", kind, str(place), str(writer), str(lease_seconds)))
            for writer in range(writers)
        ]
        told = [json.loads(answers.readline()) for _, answers in started]
    return asyncio.run(_check_order(kind, place, told))


async def _check_order(
    kind: str, place: Path, told: list[tuple[list[tuple[int, int]], dict[str, int]]]
) -> dict[str, int]:
    store = open_store(kind, place)
    said = [record.entry for record in (await store.read(SESSION))[1:]]
    await store.close()
    acknowledged = sorted((seq, epoch) for pairs, _ in told for seq, epoch in pairs)
    assert [seq for seq, _ in acknowledged] == list(range(2, len(said) + 2)), (
        "a number is missing or was given twice"
    )
    epochs = [int(entry.message.text.split()[0]) for entry in said if isinstance(entry, UserSaid)]
    assert epochs == [epoch for _, epoch in acknowledged]
    assert epochs == sorted(epochs), "an old owner wrote after a new one"
    refused = {code: sum(codes[code] for _, codes in told) for code in ("fenced", "session_busy")}
    return {"entries": len(said), "owners": len(set(epochs)), **refused}


def main(kills: int) -> None:
    for kind in DURABLE:
        seed = random.randrange(2**32)
        with TemporaryDirectory(prefix="segue-crash-") as place:
            count, cut_off = kill_again_and_again(kind, Path(place), kills, seed)
        sys.stdout.write(
            f"{kind}: {kills} kills, {count} entries acknowledged, none lost, {cut_off} turns cut off and closed\n"
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", kind, place]:
            serve_writers(kind, Path(place))
        case ["stall", kind, place, writer, lease_seconds]:
            write_and_stall(kind, Path(place), int(writer), float(lease_seconds))
        case [kills]:
            main(int(kills))
        case _:
            main(200)

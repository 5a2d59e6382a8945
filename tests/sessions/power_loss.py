"""Power cuts: what a writer did is recorded, then all that the disk did not have to have yet is forgotten at random.

Run by itself it cuts more often: `PYTHONPATH=tests python -m sessions.power_loss 200`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from segue.sessions.entries import SessionStarted
from segue.sessions.journal import Journal
from segue.sessions.state import replay
from sessions.crash import SESSION, _turn, digest
from sessions.stores_under_test import FILES, open_store

SECTOR = 512
HEAD = struct.Struct("<cIqq")


class Step(NamedTuple):
    """Something that was done to a file: written, cut, removed, or waited for."""

    kind: str
    path: str
    offset: int
    data: bytes


def compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


def compile_layer(place: Path) -> Path:
    """The library that records; needs a C compiler and Linux."""
    library = place / "power_loss.so"
    source = Path(__file__).with_suffix(".c")
    command = [str(compiler()), "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return library


def write(kind: str, root: Path, turns: int, seed: int) -> None:
    """Write turns, and acknowledge each entry that is durable in a file of its own."""

    async def main() -> None:
        store = open_store(kind, root / "stores")
        journal = await Journal.start(store, SessionStarted(), SESSION)
        acknowledged = os.open(root / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        dice = random.Random(seed)
        for _ in range(turns):
            for entries in _turn(journal.state.last_seq, dice):
                await journal.append(*entries)
                first = journal.state.last_seq - len(entries) + 1
                for seq, entry in enumerate(entries, first):
                    os.write(acknowledged, json.dumps([seq, digest(entry)]).encode() + b"\n")

    asyncio.run(main())


def recorded(kind: str, root: Path, library: Path, turns: int, seed: int) -> list[Step]:
    """What a writer did, step by step."""
    log = root / "log"
    (root / "run").mkdir(parents=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "POWER_ROOT": str(root / "run"),
        "POWER_LOG": str(log),
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }
    command = [
        sys.executable,
        "-m",
        "sessions.power_loss",
        "write",
        kind,
        str(root / "run"),
        str(turns),
        str(seed),
    ]
    subprocess.run(command, check=True, env=environment)  # noqa: S603
    data, at, steps = log.read_bytes(), 0, []
    while at < len(data):
        what, length, offset, size = HEAD.unpack_from(data, at)
        at += HEAD.size
        path = data[at : at + length].decode()
        at += length
        held = data[at : at + size] if what == b"W" else b""
        at += len(held)
        steps.append(Step(what.decode(), path, offset, held))
    return steps


def after_cut(steps: list[Step], dice: random.Random) -> tuple[dict[str, bytes], bytes]:
    """The files as a disk may have them after a power cut behind these steps, and what was acknowledged by then."""
    durable: dict[str, bytearray] = {}
    waiting: dict[str, list[Step]] = {}
    named: set[str] = set()
    acknowledged = bytearray()
    for step in steps:
        if step.path.endswith("/acknowledged"):
            _apply(acknowledged, step)
        elif step.kind == "U":
            durable.pop(step.path, None)
            waiting.pop(step.path, None)
            named.discard(step.path)
        elif step.kind == "S":
            for path in waiting:
                if os.path.dirname(path) == step.path:  # noqa: PTH120 - a path of the recording
                    named.add(path)
            for late in waiting.get(step.path, ()):
                _apply(durable.setdefault(step.path, bytearray()), late)
            if step.path in waiting:
                waiting[step.path] = []
        else:
            waiting.setdefault(step.path, []).append(step)
    for path, unsynced in waiting.items():
        if path not in named and path not in durable and dice.random() < 0.5:
            continue  # nobody waited for its name, nor for anything in it
        content = durable.setdefault(path, bytearray())
        for step in unsynced:
            _apply_some(content, step, dice)
    return {path: bytes(content) for path, content in durable.items()}, bytes(acknowledged)


def _apply(content: bytearray, step: Step) -> None:
    if step.kind == "T":
        del content[step.offset :]
        content.extend(bytes(max(0, step.offset - len(content))))
        return
    content.extend(bytes(max(0, step.offset + len(step.data) - len(content))))
    content[step.offset : step.offset + len(step.data)] = step.data


def _apply_some(content: bytearray, step: Step, dice: random.Random) -> None:
    """All of a write, none of it, or some of its sectors; in any order with the others."""
    fate = dice.choice(["all", "none", "some"])
    if fate == "none":
        return
    if fate == "all" or step.kind == "T":
        _apply(content, step)
        return
    start = step.offset
    while start < step.offset + len(step.data):
        end = min((start // SECTOR + 1) * SECTOR, step.offset + len(step.data))
        if dice.random() < 0.5:
            _apply(content, Step("W", step.path, start, step.data[start - step.offset : end - step.offset]))
        start = end


def check(kind: str, root: Path, files: dict[str, bytes], acknowledged: bytes, run: Path) -> int:
    """How many acknowledged entries are there. Raises if one is lost, or if the session does not open."""
    for path, content in files.items():
        file = root / Path(path).relative_to(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    expected = dict(json.loads(line) for line in acknowledged.splitlines())

    async def main() -> None:
        store = open_store(kind, root / "stores")
        records = await store.read(SESSION)
        kept = {record.seq: digest(record.entry) for record in records}
        lost = {seq for seq, known in expected.items() if kept.get(seq) != known}
        assert not lost, f"acknowledged, but lost: {sorted(lost)}"
        journal = await Journal.resume(store, SESSION, take_over=True)
        assert not journal.state.in_turn
        assert replay(await store.read(SESSION)) == journal.state
        await journal.close()
        await store.close()

    if expected:
        asyncio.run(main())
    return len(expected)


def cut_again_and_again(kind: str, place: Path, cuts: int, seed: int, turns: int = 6) -> int:
    """How many acknowledged entries were found after all cuts together."""
    library = compile_layer(place)
    steps = recorded(kind, place / kind, library, turns, seed)
    dice = random.Random(seed)
    found = 0
    for number in range(cuts):
        with TemporaryDirectory(dir=place) as root:
            files, acknowledged = after_cut(steps[: dice.randint(1, len(steps))], dice)
            try:
                found += check(kind, Path(root), files, acknowledged, place / kind / "run")
            except BaseException as error:
                error.add_note(f"cut {number} of seed {seed}")
                raise
    return found


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    elif compiler() is None or not sys.platform.startswith("linux"):
        sys.stdout.write("This needs Linux and a C compiler.\n")
    else:
        for store in FILES:
            with TemporaryDirectory() as directory:
                count = cut_again_and_again(
                    store, Path(directory), int(sys.argv[1]), seed=random.randrange(2**32)
                )
            sys.stdout.write(f"{store}: {sys.argv[1]} power cuts, {count} acknowledged entries, none lost\n")

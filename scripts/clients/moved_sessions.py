"""Sessions moved between real programs: each ordered pair, there with a turn of its own, and back with its seals.

Each program makes a session of its own: a compaction, a prompt with an image, a call that ran and one that was interrupted.
`python -m scripts.clients.moved_sessions [FROM-TO …]`; `make moves` runs all and writes the table into docs/move.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct, structs

from scripts.clients.__main__ import CACHE
from scripts.clients.broken_sessions import PLANTS
from scripts.clients.compaction import MARKS, compact
from scripts.clients.fetch import fetch
from scripts.clients.note_model import SLOW_COMMAND, WORD
from scripts.clients.programs import OWN, PROGRAMS, Program, Turn, version_of
from scripts.clients.stage import PROVIDER_KEY, Stage, open_stage
from scripts.clients.trials import Outcome, interrupt, new_turn, take_turn
from segue.cli.clients import Pointer

NAMES = ("claude", "codex", "gemini", "opencode", "pi", "qwen")
PAGE = Path(__file__).parent.parent.parent / "docs" / "move.md"
BEGIN, END = "<!-- results of make moves -->", "<!-- end of moves -->"


HELLO = "Hello, we begin with a word."
IMAGE = "picture.png"
MOVE_SECONDS = 600


class Trip(Struct, frozen=True):
    """One session: made in one program, continued in another, and back."""

    source: str
    target: str
    there: Outcome
    back: Outcome
    seals: int = 0
    """Signatures and encrypted thoughts of the first program's own turns that its provider got back."""
    issued: int = 0
    lost: tuple[str, ...] = ()
    """What the session held and the first request of a program did not."""

    @property
    def passed(self) -> bool:
        return self.there.passed and self.back.passed and self.seals >= self.issued and not self.lost

    def why(self) -> str:
        if self.passed:
            return "passed"
        return (
            f"FAILED: there {self.there.why()}; back {self.back.why()}; lost: {', '.join(self.lost) or '-'}"
        )


class Origin(Struct, frozen=True):
    """A session that a program made, in a home that is put back for each pair."""

    program: Program
    home: Path
    work: Path
    kept: Path
    """A copy of the home."""
    seals: frozenset[str]
    """In its last request."""


def _picture() -> bytes:
    """A blue square as PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x20\x40\xc0" * 32) * 32
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _turn(program: Program, stage: Stage, home: Path, work: Path) -> Turn:
    provider, name = OWN[program.wire]
    own = Pointer(stage.api.url(provider), PROVIDER_KEY, name)
    return structs.replace(new_turn(program, stage, CACHE, name, "move"), home=home, work=work, pointer=own)


def _live_in(stage: Stage, home: Path) -> None:
    """All that programs and segue keep is in this home, so that a copy of it is a copy of all."""
    for name in ("data", "config", "cache", "state"):
        stage.environment[f"XDG_{name.upper()}_HOME"] = str(home / name)
    stage.environment["HOME"] = str(home)


def make(program: Program, stage: Stage) -> Origin:
    """Raises RuntimeError if the session does not hold what it is to hold."""
    home, work = (
        stage.folder / "home" / f"from-{program.name}",
        stage.folder / "work" / f"from-{program.name}",
    )
    for folder in (home, work):
        folder.mkdir(parents=True, exist_ok=True)
    (work / "note.txt").write_text(f"{WORD}\n")
    (work / IMAGE).write_bytes(_picture())
    _live_in(stage, home)
    stage.model.reset()
    turn = _turn(program, stage, home, work)
    resumed = structs.replace(turn, resume=True)
    take_turn(program, structs.replace(turn, prompt=HELLO), stage)
    compact(program, turn, stage, lambda: _file(program, home))
    if not take_turn(program, structs.replace(resumed, image=IMAGE), stage).passed:
        raise RuntimeError(f"{program.title} did not make its first turn")
    seals = frozenset(_seals(stage.log(0)[-1].body))
    if program.name == "gemini":  # it refuses its own sessions after their first call
        stage.exit_code("doctor", str(_file(program, home)), "--fix")
    if not interrupt(program, resumed, stage):
        raise RuntimeError(f"{program.title} ran no tool that could be interrupted")
    if program.name == "gemini":
        _as_gemini_stops(_file(program, home))
    _check_made(program, turn, stage)
    kept = stage.folder / "made" / program.name
    shutil.copytree(home, kept, symlinks=True, ignore=_sockets)
    return Origin(program, home, work, kept, seals)


def _as_gemini_stops(file: Path) -> None:
    """An interrupted call, which it records in a chat with a screen, but not when it is ended without one."""
    call = {
        "id": "slow_1",
        "name": "run_shell_command",
        "args": {"command": SLOW_COMMAND},
        "status": "cancelled",
    }
    moment = json.loads(file.read_text("utf-8").splitlines()[0])["startTime"]
    row = {
        "id": "interrupted",
        "timestamp": moment,
        "type": "gemini",
        "content": "I look.",
        "toolCalls": [call],
    }
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_socket() or Path(folder, name).is_fifo()]


def _file(program: Program, home: Path) -> Path:
    """The last session of a program that keeps files."""
    pattern = PLANTS[program.name][0].removeprefix(f"home/{program.name}/")
    pattern = pattern.replace("*{work}*", "*").replace("*{work}", "*")
    return max(home.glob(pattern), key=lambda file: file.stat().st_mtime)


def _check_made(program: Program, turn: Turn, stage: Stage) -> None:
    other = "codex" if program.name == "pi" else "pi"
    printed = _segue(stage, turn, "move", program.name, other, "--print")
    raw = printed if program.name == "opencode" else _file(program, turn.home).read_text("utf-8")
    if program.name == "opencode":
        raw = _exported(turn, stage)
    missing = [] if MARKS[program.name] in raw.replace('": "', '":"') else ["a compaction"]
    calls = printed.count('"toolCall"') + printed.count('"type":"function_call"')
    missing += [] if calls >= 2 else ["two calls"]
    missing += [] if "image" in printed else ["an image"]
    missing += [] if WORD in printed else ["a result"]
    missing += [] if SLOW_COMMAND in printed else ["an interrupted call"]
    if missing:
        raise RuntimeError(f"{program.title} made a session without {', '.join(missing)}")


def _exported(turn: Turn, stage: Stage) -> str:
    return _opencode(
        turn,
        stage,
        "export",
        json.loads(_opencode(turn, stage, "session", "list", "-n", "1", "--format", "json"))[0]["id"],
    )


def _opencode(turn: Turn, stage: Stage, *words: str) -> str:
    binary = CACHE / "node_modules" / "opencode-linux-x64" / "bin" / "opencode"
    done = subprocess.run(
        [binary, *words],
        capture_output=True,
        text=True,
        timeout=MOVE_SECONDS,
        check=True,
        env=_environment(stage, turn),
        cwd=turn.work,
    )
    return done.stdout


def _environment(stage: Stage, turn: Turn) -> dict[str, str]:
    home = turn.home
    binaries = CACHE / "node_modules" / "opencode-linux-x64" / "bin"
    return {
        **stage.environment,
        **turn.points("opencode")[1],
        "HOME": str(home),
        "CODEX_HOME": str(home / "codex"),
        "PI_CODING_AGENT_DIR": str(home / "pi"),
        "PATH": f"{binaries}{os.pathsep}{stage.environment['PATH']}",
    }


def _segue(stage: Stage, turn: Turn, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "segue", *words],
        capture_output=True,
        text=True,
        timeout=MOVE_SECONDS,
        check=False,
        env=_environment(stage, turn),
        cwd=turn.work,
    )
    sys.stderr.write(f"  {' '.join(words)}: {done.stderr.strip()}\n")
    if done.returncode:
        raise RuntimeError(f"segue {' '.join(words)}: {done.stderr}")
    return done.stdout


def _move(stage: Stage, turn: Turn, source: str, target: str) -> None:
    _segue(stage, turn, "move", source, target, "--folder", str(turn.work))


def _seals(value: Any) -> set[str]:
    """All seals in a request or a reply."""
    if isinstance(value, dict):
        own = {value[name] for name in ("signature", "encrypted_content") if isinstance(value.get(name), str)}
        return own.union(*map(_seals, value.values())) - {""}
    return set().union(*map(_seals, value)) if isinstance(value, list) else set()


def _has_image(value: Any) -> bool:
    if isinstance(value, dict):
        own = value.get("type") in ("image", "input_image", "image_url") or "inlineData" in value
        return own or any(map(_has_image, value.values()))
    return isinstance(value, list) and any(map(_has_image, value))


def _lost(body: Any, where: str) -> list[str]:
    """What the session held and a request does not."""
    lost = [] if WORD in json.dumps(body) else [f"a result {where}"]
    return lost if _has_image(body) else [*lost, f"the image {where}"]


def travel(origin: Origin, target: Program, stage: Stage) -> Trip:
    source, home = origin.program, origin.home
    shutil.rmtree(home)
    shutil.copytree(origin.kept, home, symlinks=True)
    _live_in(stage, home)
    first, second = (_turn(program, stage, home, origin.work) for program in (source, target))
    stage.model.reset()
    try:
        _move(stage, second, source.name, target.name)
        since = stage.asked
        there = take_turn(target, structs.replace(second, resume=True), stage)
        lost = _lost(_last_body(stage, since), "there")
        _move(stage, first, target.name, source.name)
        since = stage.asked
        back = take_turn(source, structs.replace(first, resume=True), stage)
    except RuntimeError as error:
        failed = Outcome(answered=False, requests=0, output=str(error))
        return Trip(source.name, target.name, failed, failed)
    body = _last_body(stage, since)
    got = _seals(body) & origin.seals
    return Trip(
        source.name, target.name, there, back, len(got), len(origin.seals), (*lost, *_lost(body, "back"))
    )


def _last_body(stage: Stage, since: int) -> Any:
    asked = stage.log(since)
    return asked[-1].body if asked else {}


def _tried(
    one: str, other: str, programs: dict[str, Program], origins: dict[str, Origin | str], stage: Stage
) -> Trip:
    """`origins`: the sessions that were made, or why that failed."""
    failure = ""
    try:
        if one not in origins:
            origins[one] = make(programs[one], stage)
        origin = origins[one]
        if isinstance(origin, Origin):
            return travel(origin, programs[other], stage)
        failure = origin
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        failure = str(error)
        origins.setdefault(one, failure)
    failed = Outcome(answered=False, requests=0, output=failure)
    return Trip(one, other, failed, failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="*", metavar="FROM-TO", help="such as claude-codex; default: all")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and homes of the programs there")
    parser.add_argument("--write", action="store_true", help="write the table into docs/move.md")
    asked = parser.parse_args()
    programs = {program.name: program for program in PROGRAMS if program.name in NAMES}
    pairs = [tuple(pair.split("-")) for pair in asked.pairs] or [
        (one, other) for one in NAMES for other in NAMES if one != other
    ]
    fetch(list(programs.values()), CACHE)
    trips: list[Trip] = []
    origins: dict[str, Origin | str] = {}
    with TemporaryDirectory(prefix="segue-moves-") as place, open_stage(Path(asked.keep or place)) as stage:
        for one, other in pairs:
            trips.append(_tried(one, other, programs, origins, stage))
            trip = trips[-1]
            sys.stderr.write(f"{one} → {other} → {one}: {trip.why()}, {trip.seals} of {trip.issued} seals\n")
            if asked.write:
                _write(_table(trips, programs))
    sys.stdout.write(_table(trips, programs))
    passed = sum(trip.passed for trip in trips)
    sys.stderr.write(f"{passed} passed, {len(trips) - passed} failed\n")
    return 0 if passed == len(trips) else 1


def _write(table: str) -> None:
    """Into the page; rows of pairs that were not tried stay."""
    text = PAGE.read_text("utf-8")
    before, after = text.index(BEGIN), text.index(END)
    old, new = _rows(text[before:after]), _rows(table)
    order = [program.title for name in NAMES for program in PROGRAMS if program.name == name]
    merged = sorted({**old, **new}.items(), key=lambda row: [order.index(title) for title in row[0]])
    head, versions = table.splitlines()[:2], table.splitlines()[-1]
    lines = [BEGIN, *head, *(row for _, row in merged), "", versions]
    PAGE.write_text("\n".join(lines) + f"\n{text[after:]}", "utf-8")


def _rows(table: str) -> dict[tuple[str, str], str]:
    """The rows of a table by their programs."""
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    return {(cells[1].strip(), cells[2].strip()): row for row in rows if (cells := row.split("|"))}


def _table(trips: list[Trip], programs: dict[str, Program]) -> str:
    rows = [
        "| from | to | a turn there | back, with the seals of its own turns |",
        "| --- | --- | --- | --- |",
    ]
    for trip in trips:
        seals = f", {trip.seals} of {trip.issued} seals" if trip.issued else ""
        lost = f", without {', '.join(trip.lost)}" if trip.lost else ""
        there = "resumed" if trip.there.passed else "failed"
        back = f"resumed{seals}{lost}" if trip.back.passed else "failed"
        rows.append(f"| {programs[trip.source].title} | {programs[trip.target].title} | {there} | {back} |")
    versions = [f"{programs[name].title} {version_of(programs[name], CACHE)}" for name in NAMES]
    return "\n".join([*rows, "", f"{', '.join(versions)}.", ""])


if __name__ == "__main__":
    raise SystemExit(main())

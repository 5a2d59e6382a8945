"""Sessions moved between real programs: each ordered pair, there with a turn of its own, and back with its seals.

`python -m scripts.clients.moved_sessions [FROM-TO …]`; `make moves` runs all and writes the table into docs/move.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct, structs

from scripts.clients.__main__ import CACHE
from scripts.clients.fetch import fetch
from scripts.clients.programs import OWN, PROGRAMS, Program, Turn
from scripts.clients.stage import PROVIDER_KEY, Stage, open_stage
from scripts.clients.trials import Outcome, new_turn, take_turn
from segue.cli.clients import Pointer

NAMES = ("claude", "codex", "gemini", "opencode", "pi", "qwen")
PAGE = Path(__file__).parent.parent.parent / "docs" / "move.md"
BEGIN, END = "<!-- results of make moves -->", "<!-- end of moves -->"


class Trip(Struct, frozen=True):
    """One session: made in one program, continued in another, and back."""

    source: str
    target: str
    there: Outcome
    back: Outcome
    seals: int = 0
    """Signatures and encrypted thoughts of the first program's own turns that its provider got back."""
    issued: int = 0

    @property
    def passed(self) -> bool:
        return self.there.passed and self.back.passed and self.seals >= self.issued


def _turn(program: Program, stage: Stage, home: Path, work: Path) -> Turn:
    provider, name = OWN[program.wire]
    own = Pointer(stage.api.url(provider), PROVIDER_KEY, name)
    return structs.replace(new_turn(program, stage, CACHE, name, "move"), home=home, work=work, pointer=own)


def _move(stage: Stage, turn: Turn, *words: str) -> None:
    home, work = turn.home, turn.work
    environment = {
        **stage.environment,
        **turn.points("opencode")[1],
        "HOME": str(home),
        "CODEX_HOME": str(home / "codex"),
        "PI_CODING_AGENT_DIR": str(home / "pi"),
        "PATH": f"{CACHE / 'node_modules' / 'opencode-linux-x64' / 'bin'}{os.pathsep}{stage.environment['PATH']}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "segue", "move", *words, "--folder", str(work)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        cwd=work,
    )
    sys.stderr.write(f"  {' → '.join(words)}: {done.stderr.strip()}\n")
    if done.returncode:
        raise RuntimeError(f"segue move {' '.join(words)}: {done.stderr}")


def _seals(value: Any) -> set[str]:
    """All seals in a request or a reply."""
    if isinstance(value, dict):
        own = {value[name] for name in ("signature", "encrypted_content") if isinstance(value.get(name), str)}
        return own.union(*map(_seals, value.values())) - {""}
    return set().union(*map(_seals, value)) if isinstance(value, list) else set()


def travel(source: Program, target: Program, stage: Stage) -> Trip:
    home = stage.folder / "home" / f"{source.name}-{target.name}"
    work = stage.folder / "work" / f"{source.name}-{target.name}"
    for folder in (home, work):
        folder.mkdir(parents=True, exist_ok=True)
    (work / "note.txt").write_text("violet-otter-42\n")
    first, second = (_turn(program, stage, home, work) for program in (source, target))
    stage.model.reset()
    take_turn(source, first, stage)
    if source.name != "gemini":  # its own sessions cannot be resumed after their first call
        take_turn(source, structs.replace(first, resume=True), stage)
    made = _seals(stage.log(0)[-1].body)
    try:
        _move(stage, second, source.name, target.name)
        there = take_turn(target, structs.replace(second, resume=True), stage)
        _move(stage, first, target.name, source.name)
        since = stage.asked
        back = take_turn(source, structs.replace(first, resume=True), stage)
    except RuntimeError as error:
        failed = Outcome(answered=False, requests=0, output=str(error))
        return Trip(source.name, target.name, failed, failed)
    asked = stage.log(since)
    got = _seals(asked[0].body) if asked else set()
    return Trip(source.name, target.name, there, back, len(made & got), len(made))


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
    with TemporaryDirectory(prefix="segue-moves-") as place, open_stage(Path(asked.keep or place)) as stage:
        for one, other in pairs:
            trips.append(travel(programs[one], programs[other], stage))
            trip = trips[-1]
            state = "passed" if trip.passed else f"FAILED: there {trip.there.why()}; back {trip.back.why()}"
            sys.stderr.write(f"{one} → {other} → {one}: {state}, {trip.seals} of {trip.issued} seals\n")
    table = _table(trips, programs)
    sys.stdout.write(table)
    if asked.write:
        text = PAGE.read_text("utf-8")
        before, after = text.index(BEGIN), text.index(END)
        PAGE.write_text(f"{text[:before]}{BEGIN}\n{table}{text[after:]}", "utf-8")
    passed = sum(trip.passed for trip in trips)
    sys.stderr.write(f"{passed} passed, {len(trips) - passed} failed\n")
    return 0 if passed == len(trips) else 1


def _table(trips: list[Trip], programs: dict[str, Program]) -> str:
    rows = [
        "| from | to | a turn there | back, with the seals of its own turns |",
        "| --- | --- | --- | --- |",
    ]
    for trip in trips:
        seals = f", {trip.seals} of {trip.issued} seals" if trip.issued else ""
        there = "resumed" if trip.there.passed else "failed"
        back = f"resumed{seals}" if trip.back.passed else "failed"
        rows.append(f"| {programs[trip.source].title} | {programs[trip.target].title} | {there} | {back} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())

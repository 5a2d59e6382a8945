"""Run the clients: `python -m scripts.clients [NAME …] [--write]`; `make clients` runs all and writes the table."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from scripts.clients.fetch import fetch
from scripts.clients.programs import PROGRAMS, Program, version_of
from scripts.clients.stage import Stage, open_stage
from scripts.clients.trials import (
    Journey,
    Outcome,
    cancelled,
    faults,
    first_routes,
    journey,
    profile_routes,
    round_robin,
    tool_turns,
)

PAGE = Path(__file__).parent.parent.parent / "docs" / "clients.md"
BEGIN, END = "<!-- results of make clients -->", "<!-- end of results -->"
CACHE = Path(os.environ.get("SEGUE_CLIENTS", "~/.cache/segue-clients")).expanduser()


class Row(Struct, frozen=True, kw_only=True):
    """What one client came to."""

    program: Program
    version: str
    turns: dict[str, Outcome]
    faults: dict[str, Outcome]
    ring: tuple[Outcome, ...]
    cancelled: tuple[Outcome, ...] = ()
    way: Journey | None = None

    @property
    def passed(self) -> bool:
        outcomes = [*self.turns.values(), *self.faults.values(), *self.ring, *self.cancelled]
        return all(turn.passed for turn in outcomes) and (self.way is None or self.way.passed)

    def cells(self) -> list[str]:
        kind = "tool turn" if self.program.tools else "turn"
        way, home = "–", "–"
        if self.way is not None:
            turns = sum(turn.passed for turn in self.way.turns)
            seals = f"{min(self.way.seals, self.way.issued)} of {self.way.issued} seals"
            way = f"{turns} of {len(self.way.turns)} turns, {seals if self.way.issued else 'no thoughts to sign'}"
            home = self.way.home_again
        families = f"{kind} on {_good(self.turns.values())}"
        ring = f"{_good(self.ring)} turns"
        stopped = f"{_good(self.cancelled)} turns after it" if self.cancelled else "–"
        return [
            self.program.title,
            self.version,
            families,
            _good(self.faults.values()),
            ring,
            stopped,
            way,
            home,
        ]


def _good(outcomes: Collection[Outcome]) -> str:
    return f"{sum(turn.passed for turn in outcomes)} of {len(outcomes)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=", ".join(program.name for program in PROGRAMS)
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/clients.md")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and homes of the clients there")
    asked = parser.parse_args()
    programs = [program for program in PROGRAMS if not asked.names or program.name in asked.names]
    fetch(programs, CACHE)
    rows: list[Row] = []
    with TemporaryDirectory(prefix="segue-clients-") as place, open_stage(Path(asked.keep or place)) as stage:
        for program in programs:
            _restart(stage, {})
            rows.append(_try(program, stage))
            if asked.write:
                _write({row.program.title: _row(row.cells()) for row in rows})
    sys.stdout.write(_table({row.program.title: _row(row.cells()) for row in rows}))
    return 0 if all(row.passed for row in rows) else 1


def _try(program: Program, stage: Stage) -> Row:
    began = time.monotonic()
    turns = tool_turns(program, stage, CACHE)
    _restart(stage, profile_routes("team"))
    failed = faults(program, stage, CACHE)
    _restart(stage, profile_routes("ring"))
    ring = round_robin(program, stage, CACHE)
    way: Journey | None = None
    stopped: tuple[Outcome, ...] = ()
    if program.resumes and program.keeps_cancelled:
        _restart(stage, first_routes(program))
        stopped = cancelled(program, stage, CACHE)
    if program.resumes:
        _restart(stage, first_routes(program))
        way = journey(program, stage, CACHE)
    sys.stderr.write(f"{program.name}  {time.monotonic() - began:.0f} s\n")
    version = version_of(program, CACHE)
    return Row(
        program=program,
        version=version,
        turns=turns,
        faults=failed,
        ring=ring,
        cancelled=stopped,
        way=way,
    )


def _restart(stage: Stage, models: dict[str, str]) -> None:
    stage.stop()
    stage.configure(models)
    stage.start()


def _write(results: dict[str, str]) -> None:
    """Into the page; clients that were not run keep their row."""
    text = PAGE.read_text("utf-8")
    before, after = text.index(BEGIN), text.index(END)
    held = {
        line.split("|")[1].strip(): line for line in text[before:after].splitlines() if line.startswith("| ")
    }
    known = [program.title for program in PROGRAMS]
    merged = {title: line for title, line in {**held, **results}.items() if title in known}
    table = _table(dict(sorted(merged.items(), key=lambda item: known.index(item[0]))))
    PAGE.write_text(f"{text[:before]}{BEGIN}\n{table}{text[after:]}", "utf-8")


def _table(results: dict[str, str]) -> str:
    day = datetime.now(UTC).strftime("%B %Y")
    way = "A → B → C → A by `segue switch`"
    families = "provider families"
    stopped = "parallel tools cancelled"
    head = ["client", "version", families, "faults", "round robin", stopped, way, "then its own provider"]
    return "\n".join([f"Run in {day}:\n", _row(head), _row(["---"] * len(head)), *results.values()]) + "\n\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())

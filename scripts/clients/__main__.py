"""Run the clients: `python -m scripts.clients [NAME …] [--write]`; `make clients` runs all and writes the table."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.clients.fetch import fetch
from scripts.clients.programs import PROGRAMS, Program, version_of
from scripts.clients.stage import FAMILIES, Stage, open_stage
from scripts.clients.trials import Journey, Outcome, first_routes, journey, tool_turns

PAGE = Path(__file__).parent.parent.parent / "docs" / "clients.md"
BEGIN, END = "<!-- results of make clients -->", "<!-- end of results -->"
CACHE = Path(os.environ.get("SEGUE_CLIENTS", "~/.cache/segue-clients")).expanduser()


class Row:
    """What one client came to."""

    def __init__(
        self, program: Program, version: str, turns: dict[str, Outcome], way: Journey | None
    ) -> None:
        self.program = program
        self.version = version
        self.turns = turns
        self.way = way

    @property
    def passed(self) -> bool:
        home = self.way is None or self.way.home is None or self.way.home.passed
        return (
            all(turn.passed for turn in self.turns.values())
            and (self.way is None or self.way.passed)
            and home
        )

    def cells(self) -> list[str]:
        good = sum(turn.passed for turn in self.turns.values())
        way, home = "–", "–"
        if self.way is not None:
            turns = sum(turn.passed for turn in self.way.turns)
            way = f"{turns} of {len(self.way.turns)} turns, {self.way.seals} of {self.way.issued} seals"
            home = "accepted" if self.way.home is not None and self.way.home.passed else "refused"
        kind = "tool turn" if self.program.tools else "turn"
        return [
            self.program.title,
            self.version,
            f"{kind} on {good} of {len(self.turns)} families",
            way,
            home,
        ]


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
    with TemporaryDirectory(prefix="segue-clients-") as place, open_stage(Path(asked.keep or place)) as stage:
        rows = [_try(program, stage) for program in programs]
    table = _table(rows)
    sys.stdout.write(table)
    if asked.write:
        text = PAGE.read_text("utf-8")
        pattern = re.compile(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
        PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n{table}{END}", text), "utf-8")
    return 0 if all(row.passed for row in rows) else 1


def _try(program: Program, stage: Stage) -> Row:
    began = time.monotonic()
    turns = tool_turns(program, stage, CACHE)
    way = None
    if program.resumes:
        stage.stop()
        stage.configure(first_routes())
        stage.start()
        way = journey(program, stage, CACHE)
    sys.stderr.write(f"{program.name}  {time.monotonic() - began:.0f} s\n")
    return Row(program, version_of(program, CACHE), turns, way)


def _table(rows: list[Row]) -> str:
    day = datetime.now(UTC).strftime("%B %Y")
    head = [
        "client",
        "version",
        f"{len(FAMILIES)} provider families",
        "A → B → C → A by `segue switch`",
        "then its own provider",
    ]
    lines = [f"Run in {day}:\n", _row(head), _row(["---"] * len(head)), *(_row(row.cells()) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())

"""Change the code in one small place at a time and see whether a test notices.

python -m scripts.mutants                       600 mutants, evenly chosen, with a fresh seed
python -m scripts.mutants --sample 0            all of them
python -m scripts.mutants --only FILE:NUMBER    these
python -m scripts.mutants --map FILE            with a map of an earlier run, which saves most of the time
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from scripts.mutants.changes import Mutant, mutants_of
from scripts.mutants.coverage_map import MapWriter, joined_map
from scripts.mutants.trial import Outcome, Trials

ROOT = Path(__file__).resolve().parents[2]
CODE = (
    "src/segue/conversation/**/*.py",
    "src/segue/transcript/**/*.py",
    "src/segue/routing/**/*.py",
    "src/segue/chat/turn.py",
    "src/segue/chat/turn_exchange.py",
    "src/segue/exchange/attempt.py",
    "src/segue/exchange/exchange.py",
    "src/segue/tools/scheduler.py",
    "src/segue/tools/execution.py",
)
TESTS = ("conversation", "transcript", "laws", "routing", "chat", "tools", "stories")
"""The folders of tests that are about this code."""
PLUGINS = ("scripts.mutants.profile", "no:randomly", "no:xdist", "no:cacheprovider")
OPTIONS = ["-q", "-s", "--no-header", *(word for plugin in PLUGINS for word in ("-p", plugin))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=600)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=30.0, help="seconds of tests for one mutant")
    parser.add_argument("--map", type=Path, action="append", default=[])
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--report", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--write-map", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("tests", nargs="*", default=[f"tests/{folder}" for folder in TESTS])
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    if options.write_map:
        return int(
            pytest.main([*OPTIONS, *options.tests], [MapWriter(ROOT, code_files(), options.write_map)])
        )
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    mutants = chosen(options.sample, seed, options.only)
    print(f"{len(mutants)} mutants. Choose the same again with: --seed {seed} --sample {options.sample}")
    covering = joined_map(options.map or [write_map(options.tests)])
    with options.report.open("wb") as report:
        outcomes: list[Outcome] = []

        def note(outcome: Outcome) -> None:
            outcomes.append(outcome)
            report.write(msgspec.json.encode(outcome) + b"\n")
            report.flush()
            if outcome.fate in ("survived", "not run"):
                print(_line(outcome), flush=True)

        trials = Trials(ROOT, mutants, covering, workers=options.workers, budget=options.budget, report=note)
        pytest.main([*OPTIONS, *options.tests], [trials])
    print(table(outcomes))
    return 0 if len(outcomes) == len(mutants) else 1


def code_files() -> list[str]:
    found = {path for pattern in CODE for path in ROOT.glob(pattern) if path.name != "__init__.py"}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def chosen(sample: int, seed: int, only: list[str]) -> list[Mutant]:
    """Each change is as likely as any other."""
    everything = [
        mutant for file in code_files() for mutant in mutants_of((ROOT / file).read_text("utf-8"), file)
    ]
    if only:
        return [mutant for mutant in everything if mutant.name in only]
    if not 0 < sample < len(everything):
        return everything
    drawn = random.Random(seed).sample(everything, sample)  # noqa: S311 - a sample, no secret
    return sorted(drawn, key=lambda one: (one.file, one.number))


def write_map(tests: list[str]) -> Path:
    """In a process of its own: one that has run tests is no good parent for others."""
    target = Path(tempfile.mkdtemp(prefix="mutants-")) / "map.json"
    command = [sys.executable, "-m", "scripts.mutants", "--write-map", str(target), *tests]
    subprocess.run(command, check=True, cwd=ROOT)
    print(f"Use the map of which test runs which line again with: --map {target}")
    return target


def _line(outcome: Outcome) -> str:
    mutant = outcome.mutant
    return f"{outcome.fate}: {mutant.name} (line {mutant.line}) {mutant.kind}: {mutant.before}  →  {mutant.after}"


def table(outcomes: list[Outcome]) -> str:
    """Per folder: how many were tried, and how many noticed."""
    tried: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    for outcome in outcomes:
        for part in (Path(outcome.mutant.file).parts[2], "all"):
            tried[part] += 1
            noticed[part] += outcome.fate in ("killed", "endless")
    rows = [
        f"| {part} | {tried[part]} | {noticed[part]} | {100 * noticed[part] / tried[part]:.1f} % |"
        for part in (*sorted(set(tried) - {"all"}), "all")
        if tried[part]
    ]
    return "\n".join(["| code | mutants | noticed | |", "|---|---|---|---|", *rows])


if __name__ == "__main__":
    sys.exit(main())

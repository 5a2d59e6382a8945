"""Kill workers of engines with SIGKILL at random moments and check what they leave behind: `python -m scripts.engine_crash --kills 200`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from integrations.dbos_kills import dbos_engine
from integrations.engine_kills import Engine, kill_workers
from integrations.restate_server import program, restate_engine

ENGINES = ("dbos-sqlite", "dbos-postgres", "restate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of each engine (default: 200)")
    parser.add_argument("--minutes", type=float, default=120.0, help="kill for no longer (default: 120)")
    parser.add_argument("--engine", choices=ENGINES, help="only this one (default: each)")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**32), help="default: another each time"
    )
    asked = parser.parse_args()
    for name in (asked.engine,) if asked.engine else ENGINES:
        if name == "restate" and program() is None:
            sys.stdout.write("restate: not tried, there is no server. `make restate-server` installs one.\n")
            continue
        sys.stdout.write(f"{name}: seed {asked.seed}\n")  # a run that fails can be repeated
        sys.stdout.flush()
        started = time.monotonic()
        with TemporaryDirectory(prefix="segue-engine-", dir="/tmp") as place:
            folder = Path(place)
            with _engine(name, folder) as engine:
                found = kill_workers(engine, folder, asked.kills, asked.seed, asked.minutes)
        sys.stdout.write(f"{name} (seed {asked.seed}, {time.monotonic() - started:.0f} s): {found}\n")
        sys.stdout.flush()


def _engine(name: str, folder: Path) -> AbstractContextManager[Engine]:
    return restate_engine(folder) if name == "restate" else dbos_engine(folder, name.removeprefix("dbos-"))


if __name__ == "__main__":
    main()

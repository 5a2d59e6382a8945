"""Kill PostgreSQL itself at random moments while sessions are written: `python -m scripts.database_crash --kills 200`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from postgres_server import own_server
from sessions.database_crash import kill_database


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**32), help="default: another each time"
    )
    asked = parser.parse_args()
    started = time.monotonic()
    with own_server(settings=("max_connections=50",)) as server:
        found = kill_database(server, asked.kills, asked.seed)
    sys.stdout.write(
        f"{found.kills} kills of the database in {time.monotonic() - started:.0f} s (seed {asked.seed}), "
        f"{found.acknowledged} appends acknowledged, none lost and none twice; the longest took {found.longest_pause:.1f} s\n"
    )


if __name__ == "__main__":
    main()

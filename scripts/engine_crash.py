"""Kill workers of an engine with SIGKILL at random moments and check what they leave behind: `python -m scripts.engine_crash --kills 200`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from integrations.dbos_kills import AGENTS, kill_workers
from postgres_server import PostgresServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of each database (default: 200)")
    parser.add_argument("--database", choices=("sqlite", "postgres"), help="only this one (default: each)")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**32), help="default: another each time"
    )
    asked = parser.parse_args()
    for database in (asked.database,) if asked.database else ("sqlite", "postgres"):
        started = time.monotonic()
        with TemporaryDirectory(prefix="segue-engine-") as place:
            folder = Path(place)
            folder.chmod(0o755)
            if database == "sqlite":
                found = kill_workers(folder, f"sqlite:///{folder}/dbos.db", "", asked.kills, asked.seed)
            else:
                server = PostgresServer(folder / "postgres")
                server.create()
                server.start()
                try:
                    found = kill_workers(folder, server.url("dbos"), server.url(), asked.kills, asked.seed)
                finally:
                    server.stop()
        sys.stdout.write(
            f"DBOS on {database}: {found.kills} kills in {time.monotonic() - started:.0f} s (seed {asked.seed}), {AGENTS} agents, "
            f"{found.turns} turns and none lost or stuck, {found.effects} effects and none twice, "
            f"{found.interrupted} calls interrupted\n"
        )


if __name__ == "__main__":
    main()

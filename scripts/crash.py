"""Kill chats with SIGKILL at random moments and check what they leave behind: `python -m scripts.crash --kills 200`."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from postgres_server import PLACE, installation
from sessions.crash import kill_again_and_again as kill_writers
from sessions.stores_under_test import DURABLE, FILES
from stories.crashes import kill_again_and_again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of each store (default: 200)")
    parser.add_argument("--store", choices=DURABLE, help="only this one (default: each)")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**32), help="default: another each time"
    )
    asked = parser.parse_args()
    # One server of PostgreSQL for all the processes that are killed.
    os.environ.setdefault(PLACE, str(Path(gettempdir()) / f"segue-crash-{os.getpid()}"))
    for kind in (asked.store,) if asked.store else DURABLE if installation() else FILES:
        started = time.monotonic()
        with TemporaryDirectory(prefix="segue-crash-") as place:
            found = kill_again_and_again(kind, Path(place), asked.kills, asked.seed)
        sys.stdout.write(
            f"{kind}: {found.kills} kills in {time.monotonic() - started:.0f} s (seed {asked.seed}), "
            f"{found.acknowledged} events acknowledged and none lost, {found.effects} effects and none twice, "
            f"{found.cut_off} turns cut off and closed, {found.interrupted} calls interrupted, "
            f"{found.before_opening} lives too short to begin\n"
        )
        with TemporaryDirectory(prefix="segue-crash-") as place:
            entries, cut_off = kill_writers(kind, Path(place), asked.kills, asked.seed)
        sys.stdout.write(
            f"{kind}: {asked.kills} kills of a bare writer, {entries} entries acknowledged and none lost, "
            f"{cut_off} turns cut off and closed\n"
        )


if __name__ == "__main__":
    main()

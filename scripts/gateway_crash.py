"""Kill the gateway with SIGKILL at random moments of an agent's work: `python -m scripts.gateway_crash --kills 100`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from gateway.crashes import kill_again_and_again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=915)
    asked = parser.parse_args()
    started = time.monotonic()
    with TemporaryDirectory(prefix="segue-gateway-crash-") as place:
        found = kill_again_and_again(Path(place), asked.kills, asked.seed)
    sys.stdout.write(
        f"{found.kills} kills in {time.monotonic() - started:.0f} s (seed {asked.seed}), {found.during_replies} of them "
        f"during a reply; {found.turns} turns ended, no request refused, {found.signatures} signatures kept and none lost\n"
    )


if __name__ == "__main__":
    main()

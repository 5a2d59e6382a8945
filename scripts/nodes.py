"""Spread conversations over several gateways on one PostgreSQL and kill gateways: `python -m scripts.nodes --nodes 4`."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from gateway.limited_callers import limited_callers
from gateway.nodes import Plan, Spread, spread_at_random
from postgres_server import own_server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--conversations", type=int, default=100)
    parser.add_argument("--kills", type=int, default=1_000_000, help="at most; default: again and again")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**32), help="default: another each time"
    )
    parser.add_argument(
        "--pause", type=float, default=0.5, help="seconds between two kills at most (default: 0.5)"
    )
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stop and check after so many (default: when all is sent)"
    )
    asked = parser.parse_args()
    plan = Plan(
        nodes=asked.nodes,
        conversations=asked.conversations,
        turns=max(asked.requests // asked.conversations // 2, 1),
        kills=asked.kills,
        seed=asked.seed,
        pause=asked.pause,
        seconds=60 * asked.minutes,
        callers=limited_callers(budget=asked.requests // 20, per_minute=30),
    )
    with (
        own_server(settings=("max_connections=100",)) as server,
        TemporaryDirectory(prefix="segue-nodes-") as place,
    ):
        found = spread_at_random(Path(place), server.url(), plan, _show)
    sys.stdout.write(
        f"{asked.nodes} nodes: {found.requests} requests of {asked.conversations} conversations in {found.seconds:.0f} s (seed "
        f"{asked.seed}), {found.kills} nodes killed, {found.broken_off} requests broken off and sent again; none refused, "
        f"{found.turns} turns each on one route, {found.signatures} signatures and none missing\n"
    )
    for name, got in found.limited.items():
        sys.stdout.write(
            f"caller {name}: {got.counted:.0f} requests counted ({100 * got.counted / got.allowed:.1f} %) and {got.served} served "
            f"where {got.allowed:.0f} were allowed, {got.broken_off} broken off, {got.refused} refused\n"
        )


def _show(found: Spread) -> None:
    sys.stderr.write(f"{found.turns} turns, {found.requests} requests, {found.kills} nodes killed\n")


if __name__ == "__main__":
    main()

"""Whether the time of a refusal tells something about keys: `make key-timing` asks 40,000 times with wrong ones.

Keys that are nearly right, long, short and random are sent in turn over one connection, and the medians are compared. The same kind
is there twice: what differs between the two is noise.
"""

from __future__ import annotations

import argparse
import http.client
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cli.cli_runs import Home
from gateway.attacked_gateway import CALLER, AttackedGateway
from gateway.limited_callers import key_of
from gateway.plain_provider import plain_provider

KEY = key_of(CALLER)
LETTERS = "abcdefghijklmnop-"
KINDS: Mapping[str, Callable[[random.Random], str]] = {
    "random": lambda chance: "".join(chance.choices(LETTERS, k=len(KEY))),
    "random again": lambda chance: "".join(chance.choices(LETTERS, k=len(KEY))),
    "all but the last letter": lambda chance: KEY[:-1] + chance.choice("abcdefghijklm"),
    "all but the first letter": lambda chance: chance.choice("abcdefghijklm") + KEY[1:],
    "one letter more": lambda chance: KEY + chance.choice("abcdefghijklm"),
}


def medians(place: Path, count: int, seed: int) -> dict[str, float]:
    """Microseconds of a refusal by the kind of its key; so many of each."""
    chance = random.Random(seed)
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with plain_provider() as url:
        gateway = AttackedGateway(Home(place / "home"), url)
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
        try:
            for _ in range(count):
                for kind in chance.sample(list(KINDS), len(KINDS)):
                    headers = {"authorization": f"Bearer {KINDS[kind](chance)}"}
                    began = time.perf_counter()
                    connection.request("GET", "/v1/models", headers=headers)
                    answer = connection.getresponse()
                    answer.read()
                    taken[kind].append(1e6 * (time.perf_counter() - began))
                    assert answer.status == 401
        finally:
            connection.close()
            gateway.stop()
    return {kind: statistics.median(times) for kind, times in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=28)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="segue-key-timing-") as place:
        found = medians(Path(place), asked.requests // len(KINDS), asked.seed)
    base = found["random"]
    for kind, median in found.items():
        sys.stdout.write(f"{kind:26} {median:8.1f} µs {median - base:+8.1f}\n")


if __name__ == "__main__":
    main()

"""Fuzzes everything that reads something from outside: `PYTHONPATH=tests python -m fuzz.run --minutes 10`.

Every round has another seed, which is printed with what it finds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz.targets import TARGETS, try_once

ROUND = 500


def fuzz(target: str, number: int, examples: int) -> int:
    """How many examples were tried. Raises what one of them raised, made as small as it gets."""
    tried = 0

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.data())
    def one(data: st.DataObject) -> None:
        nonlocal tried
        tried += 1
        try_once(target, data)

    one()
    return tried


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    ends = time.monotonic() + arguments.minutes * 60
    tried = dict.fromkeys(arguments.target or TARGETS, 0)
    findings = 0
    while time.monotonic() < ends:
        for target in tried:
            number = dice.randrange(2**32)
            try:
                tried[target] += fuzz(target, number, ROUND)
            except BaseException as found:
                if isinstance(found, KeyboardInterrupt):
                    raise
                findings += 1
                sys.stdout.write(f"{target}, seed {number}:\n")
                traceback.print_exception(found, limit=-6)
            if time.monotonic() > ends:
                break
    total = sum(tried.values())
    sys.stdout.write(f"{arguments.minutes:g} minutes, {total} examples ({tried}), {findings} findings\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

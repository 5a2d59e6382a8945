"""Cases that are too many for every run: a run takes a sample, which changes with the day; a long command takes them all."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Final, TypeVar

DAY: Final = "SEGUE_TESTS_DAY"
"""The variable with the seed of the samples. The run sets it once, so that all its workers draw alike."""

Case = TypeVar("Case")


def sample(cases: Sequence[Case], count: int) -> list[Case]:
    """So many of the cases, in their order."""
    drawn = random.Random(os.environ.get(DAY)).sample(range(len(cases)), min(count, len(cases)))
    return [cases[number] for number in sorted(drawn)]

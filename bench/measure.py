"""Medians of interleaved rounds, so that a busy machine disturbs both sides of a ratio alike."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Mapping
from functools import cache
from statistics import median
from time import process_time_ns

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of `mallopt` (malloc.h)."""


def interleaved(subjects: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Nanoseconds per run of each subject: the median over rounds in which each runs once."""
    keep_memory()
    taken: dict[str, list[int]] = {name: [] for name in subjects}
    for run in subjects.values():
        run()
    gc.collect()
    for _ in range(rounds):
        for name, run in subjects.items():
            start = process_time_ns()
            run()
            taken[name].append(process_time_ns() - start)
    return {name: median(times) for name, times in taken.items()}


@cache
def keep_memory() -> list[bytes]:
    """Have the process keep its memory, as one does that runs for a while.

    Otherwise each round gets fresh pages from the system, up to 5 µs each in a virtual machine, and chance decides which
    subject pays for them.
    """
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "mallopt"):  # Linux
        allocator.mallopt(_TRIM_THRESHOLD, 2**30)
        allocator.mallopt(_MMAP_THRESHOLD, 2**30)
    # One small object in each of Python's arenas keeps it from being given back.
    return [bytes(480) for _ in range(200_000)][::2000]

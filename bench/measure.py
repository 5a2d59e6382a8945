"""Medians of interleaved rounds, so that a busy machine disturbs both sides of a ratio alike."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from statistics import median
from time import process_time_ns


def interleaved(subjects: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Nanoseconds per run of each subject: the median over rounds in which each runs once."""
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

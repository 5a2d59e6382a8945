"""How much memory something takes, counted by tracemalloc."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def kept_of(make: Callable[[], object]) -> int:
    """Bytes that stay of what is made. Make it once before: what is loaded once is no part of it."""
    # All that the run holds by now, also from here on: to look through it takes longer than what is measured.
    gc.freeze()
    tracemalloc.start()
    try:
        kept = make()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    del kept
    return size

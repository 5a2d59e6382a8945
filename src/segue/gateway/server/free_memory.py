"""Memory that is free inside this process, given back to the system.

Bodies and histories of tens of kilobytes come and go between values that stay for long, such as what the caches hold. glibc
gives back only what is free at the end of its heap, so the holes between them add up: over 20,000 requests what is in use stays
the same, and the process grows by several megabytes. `malloc_trim` gives back the holes too.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = 20.0
"""Between two times. Each takes some milliseconds of a thread."""


async def give_back_for_ever(seconds: float = SECONDS) -> None:
    """Returns at once where the C library has no such function: those of other systems need none, or have none."""
    trim = _trim_of_glibc()
    while trim is not None:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(trim, 0)


def _trim_of_glibc() -> Callable[[int], int] | None:
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return None
    found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
    return found

"""What is free inside a gateway goes back to the system, though values that stay lie between."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import asyncio, os
from segue.gateway.server.free_memory import give_back_for_ever

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def main():
    try:
        async with asyncio.timeout(1.0):
            await give_back_for_ever(0.05)
    except TimeoutError:
        pass

bodies = [bytes([number % 256]) * 20_000 for number in range(4_000)]
stay = bodies[::10]
bodies.clear()
before = resident()
asyncio.run(main())
print(before, resident(), len(stay))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_holes_between_values_that_stay_are_given_back() -> None:
    told = subprocess.run(  # noqa: S603 - the program above
        [sys.executable, "-c", _PROGRAM], capture_output=True, check=True, timeout=30
    )
    before, after, kept = map(int, told.stdout.split())
    assert kept == 400
    assert before - after > 20 << 20, "of 72 MB that are free"

"""Which functions of Python the instructions of a request go to, counted by callgrind: `ROW=forwarded python -m bench functions`.

CPython from 3.12 on gives each function a small piece of machine code of its own where `PYTHONPERFSUPPORT` is set, and writes down their
addresses; callgrind counts by these. What a function calls is counted with it. A generator may get what others took: look at its callers.
A copy of memory counts one instruction for each byte, and takes a thirtieth of that. Needs Linux and valgrind; LINES=200 prints more.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from bench.gateway import MESSAGES, NATIVE
from bench.gateway_load import Run
from bench.gateway_processes import open_bench
from bench.instructions import COUNTED, Counted, cost_of

ROWS = {
    "streamed": Run(port=0, path=MESSAGES),
    "whole": Run(port=0, path=MESSAGES, stream=False),
    "forwarded-streamed": Run(port=0, path=MESSAGES, model=NATIVE),
    "forwarded": Run(port=0, path=MESSAGES, model=NATIVE, stream=False),
}
_NAME = re.compile(r"(c?fn)=\((\d+)\)(?: (.*))?\n")
_ADDRESS = re.compile(r"0x([0-9a-f]+)")


def run() -> None:
    if not hasattr(sys, "activate_stack_trampoline") or which("valgrind") is None:
        print("this needs CPython 3.12 or newer, and valgrind", flush=True)
        return
    row = os.environ.get("ROW", "forwarded")
    with TemporaryDirectory() as place, open_bench() as bench:
        folder = Path(place)
        counted = Counted(
            folder, "gateway", lambda under: bench.open_gateway(under=under, PYTHONPERFSUPPORT="1")
        )
        bench.run(Run(port=counted.process.port, path=MESSAGES, clients=1, requests=1))
        total = cost_of(bench, counted, ROWS[row], MESSAGES)
        places = Path(f"/tmp/perf-{counted.process.process.pid}.map")  # noqa: S108 - CPython's own place
        functions = dict(_functions(places.read_text()))
        costs, calls = _costs(sorted(folder.glob("gateway.out.*"), key=_number), functions)
        places.unlink()
    print(
        f"{row}: {total:.2f} million instructions of a request, each function with what it calls", flush=True
    )
    print(f"{'thousands':>10}{'calls':>8}", flush=True)
    for name, cost in costs.most_common(int(os.environ.get("LINES", "100"))):
        print(f"{cost / COUNTED / 1000:>10.1f}{calls[name] / COUNTED:>8.1f} {name}", flush=True)


def _number(file: Path) -> int:
    return int(file.suffix[1:])


def _functions(places: str) -> Iterator[tuple[int, str]]:
    """By their addresses."""
    for line in places.splitlines():
        address, _, name = line.split(" ", 2)
        yield int(address, 16), name.removeprefix("py::")


def _costs(files: list[Path], functions: dict[int, str]) -> tuple[Counter[str], Counter[str]]:
    """Instructions and calls of the last of these counts. Names stand in the first that has them."""
    names: dict[str, str] = {}
    costs: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for file in files:
        costs.clear()
        calls.clear()
        callee, times = "", 0
        with file.open() as lines:
            for line in lines:
                if (named := _NAME.fullmatch(line)) is not None:
                    names.setdefault(named[2], named[3] or "")
                    callee = names[named[2]] if named[1] == "cfn" else callee
                elif line.startswith("calls="):
                    times = int(line[6:].split()[0])
                elif times:
                    address = _ADDRESS.match(callee)
                    if address is not None and (name := functions.get(int(address[1], 16))) is not None:
                        costs[name] += int(line.split()[1])
                        calls[name] += times
                    times = 0
    return costs, calls

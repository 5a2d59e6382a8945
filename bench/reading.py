"""Instructions of reading a client's request and planning it for another wire, in process: seen first, and as a next turn, on each wire.

Tools are known, as they are but for the first request of a client. *Floor* is parsing and encoding the body. Needs Linux and valgrind.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import IO

from bench.gateway_processes import Measured
from bench.gateway_translation import ROUTE, Translation, floor, result_of
from bench.instructions import Counted
from bench.measure import keep_memory
from bench.next_turns import PATHS, bodies
from segue.gateway.server.process import spare_collections

SIZES = (6, 34, 400)
WARM = 3
"""So many conversations are read before the one that is counted."""


def run() -> None:
    if which("valgrind") is None:
        print("valgrind is not installed: no instructions are counted", flush=True)
        return
    with TemporaryDirectory() as folder:
        counted = Counted(Path(folder), "reading", _opened)
        process = counted.process.process
        assert process.stdin is not None
        assert process.stdout is not None
        print(f"{'millions of instructions':<34}{'first':>8}{'next':>8}{'floor':>8}", flush=True)
        for wire in PATHS:
            for size in SIZES:
                figures: list[float] = []
                for _ in range(3):
                    assert process.stdout.readline() == b"ready\n"
                    counted.begin()
                    counted.take()
                    _go_on(process.stdin)
                    assert process.stdout.readline() == b"done\n"
                    figures.append(counted.take() / 1e6)
                    _go_on(process.stdin)
                print(
                    f"{wire}, {size} messages".ljust(34) + "".join(f"{one:>8.2f}" for one in figures),
                    flush=True,
                )
        process.wait(60)


def _go_on(stdin: IO[bytes]) -> None:
    stdin.write(b"go\n")
    stdin.flush()


def _opened(under: tuple[str, ...]) -> Measured:
    words = [*under, sys.executable, "-m", "bench.reading"]
    return Measured(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE), 0)  # noqa: S603 - our own words


def _work() -> None:
    """What is counted, one step whenever the parent says so."""
    spare_collections()  # as the gateway does
    keep_memory()
    for wire, path in PATHS.items():
        translate = Translation(ROUTE if wire == "anthropic" else "anthropic/claude-sonnet-4-5", path)
        for size in SIZES:
            asked = [bodies(wire, size) for _ in range(WARM + 1)]
            for number, known in enumerate(asked[:-1]):
                for body in known:
                    result_of(translate(body, {"x-segue-session": f"{size}-{number}"}))
            first, second, _ = asked[-1]
            headers = {"x-segue-session": f"{size}-{WARM}"}
            _step(partial(_read, translate, first, headers))
            _step(partial(_read, translate, second, headers))
            _step(partial(floor, first))


def _read(translate: Translation, body: bytes, headers: dict[str, str]) -> None:
    result_of(translate(body, headers))


def _step(work: Callable[[], object]) -> None:
    """Work when the parent says so, and wait until it has taken the count."""
    print("ready", flush=True)
    sys.stdin.readline()
    work()
    print("done", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    _work()

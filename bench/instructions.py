"""Instructions of a request, counted by callgrind: they differ by up to a twentieth from run to run, however busy the machine is.

With them two versions can be compared. What the kernel does is not counted. Needs Linux and valgrind.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from bench.gateway import CHAT, MESSAGES, NATIVE
from bench.gateway_load import Figures, Run
from bench.gateway_processes import Bench, Measured, open_bench
from bench.gateway_requests import MODEL

WARM, COUNTED, CLIENTS = 48, 48, 8
_TOTALS = re.compile(r"^(?:totals|summary): (\d+)", re.M)


class Counted:
    """A process under callgrind."""

    def __init__(self, folder: Path, name: str, opened: Callable[[tuple[str, ...]], Measured]) -> None:
        self._folder, self._name = folder, f"{name}.out"
        words = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder / self._name}"]
        self.process = opened(("valgrind", "-q", *words))

    def begin(self) -> None:
        self._control("-i", "on")

    def take(self) -> int:
        """The instructions since the last time."""
        known = {*self._files()}
        self._control("-d")
        for _ in range(100):
            new = [*({*self._files()} - known)]
            if new and (found := _TOTALS.findall(new[0].read_text())):
                return int(found[-1])
            time.sleep(0.1)
        raise RuntimeError("Callgrind wrote no count.")

    def _files(self) -> list[Path]:
        return [*self._folder.glob(f"{self._name}.*")]

    def _control(self, *words: str) -> None:
        pid = str(self.process.process.pid)
        subprocess.run(  # noqa: S603 - our own words
            ["callgrind_control", *words, pid],  # noqa: S607
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )


def run() -> None:
    if which("valgrind") is None:
        print("valgrind is not installed: no instructions are counted", flush=True)
        return
    with TemporaryDirectory() as folder, open_bench() as bench:
        gateway = Counted(Path(folder), "gateway", lambda under: bench.open_gateway(under=under))
        bare = Counted(Path(folder), "bare", bench.open_bare)
        print(f"{'millions of instructions of a request':<40}{'ours':>8}{'bare':>8}", flush=True)
        for name, run, path in (
            ("first sight, streamed", Run(port=0, path=MESSAGES), CHAT),
            ("first sight, whole", Run(port=0, path=MESSAGES, stream=False), CHAT),
            ("forwarded, streamed", Run(port=0, path=MESSAGES, model=NATIVE), MESSAGES),
            ("forwarded, whole", Run(port=0, path=MESSAGES, model=NATIVE, stream=False), MESSAGES),
        ):
            ours = cost_of(bench, gateway, run, MESSAGES)
            print(f"{name:<40}{ours:>8.2f}{cost_of(bench, bare, run, path):>8.2f}", flush=True)
        turns = [
            cost_of_next_turn(bench, counted, path) for counted, path in ((gateway, MESSAGES), (bare, CHAT))
        ]
        print(f"{'next turn of 8 to 34 messages':<40}{turns[0]:>8.2f}{turns[1]:>8.2f}", flush=True)


def cost_of(bench: Bench, counted: Counted, run: Run, path: str) -> float:
    asked = Run(
        port=counted.process.port,
        path=path,
        stream=run.stream,
        model=run.model,
        clients=CLIENTS,
        requests=WARM,
    )
    counted.begin()
    _checked(bench, asked)
    counted.take()
    asked.requests = COUNTED
    figures = _checked(bench, asked)
    time.sleep(0.5)  # what follows a reply is part of its cost
    return counted.take() / figures.requests / 1e6


def cost_of_next_turn(bench: Bench, counted: Counted, path: str) -> float:
    asked = Run(port=counted.process.port, path=path, kind="open", clients=CLIENTS, requests=CLIENTS)
    asked.model = MODEL
    counted.begin()
    _checked(bench, asked)
    time.sleep(0.5)
    counted.take()
    asked.kind, asked.requests = "continue", 14
    figures = _checked(bench, asked)
    time.sleep(0.5)
    return counted.take() / figures.requests / 1e6


def _checked(bench: Bench, asked: Run) -> Figures:
    figures = bench.run(asked)
    if figures.refused or figures.incomplete:
        raise RuntimeError(f"{figures.statuses}, {figures.incomplete} incomplete\n{bench.last_lines()}")
    return figures

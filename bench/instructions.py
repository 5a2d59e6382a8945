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
from bench.gateway_upstream import Mode

WARM, COUNTED, CLIENTS = 48, 48, 8
PACED, PACED_CHUNKS = 2, 100
"""Streams whose chunks come alone, and how many more the longer ones have."""
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
            stderr=subprocess.DEVNULL,
            timeout=60,
        )


def run() -> None:
    if which("valgrind") is None:
        print("valgrind is not installed: no instructions are counted", flush=True)
        return
    with TemporaryDirectory() as folder, open_bench() as bench:
        gateway = Counted(Path(folder), "gateway", lambda under: bench.open_gateway(under=under))
        peers = [
            Counted(Path(folder), "bare", bench.open_bare),
            Counted(Path(folder), "raw", bench.open_raw),
        ]
        # The first request opens the stores, which under valgrind may take longer than they are waited for.
        bench.run(Run(port=gateway.process.port, path=MESSAGES, clients=1, requests=1))
        title = "millions of instructions of a request"
        print(f"{title:<40}{'ours':>8}{'bare':>8}{'raw':>8}", flush=True)
        for name, run, path in (
            ("first sight, streamed", Run(port=0, path=MESSAGES), CHAT),
            ("first sight, whole", Run(port=0, path=MESSAGES, stream=False), CHAT),
            ("forwarded, streamed", Run(port=0, path=MESSAGES, model=NATIVE), MESSAGES),
            ("forwarded, whole", Run(port=0, path=MESSAGES, model=NATIVE, stream=False), MESSAGES),
        ):
            _print(
                name,
                cost_of(bench, gateway, run, MESSAGES),
                *(cost_of(bench, peer, run, path) for peer in peers),
            )
        for name, model, path in (
            ("next turn of 8 to 34 messages", MODEL, CHAT),
            ("the same, forwarded", NATIVE, MESSAGES),
        ):
            _print(
                name,
                cost_of_next_turn(bench, gateway, MESSAGES, model),
                *(cost_of_next_turn(bench, peer, path, model) for peer in peers),
            )
        for name, model, path in (("translated", MODEL, CHAT), ("forwarded", NATIVE, MESSAGES)):
            _print(
                f"a chunk that comes alone, {name} (thousands)",
                1000 * _chunk(bench, gateway, MESSAGES, model),
                *(1000 * _chunk(bench, peer, path, model) for peer in peers),
            )


def _print(name: str, *figures: float) -> None:
    print(f"{name:<40}" + "".join(f"{figure:>8.2f}" for figure in figures), flush=True)


def _chunk(bench: Bench, counted: Counted, path: str, model: str) -> float:
    """Of one chunk of a stream, which arrives alone: what a longer stream costs more than a shorter one."""
    costs: list[float] = []
    counted.begin()
    for chunks in (20, 20, 20 + PACED_CHUNKS):  # the first to warm up
        bench.mode(Mode(paced_chunks=chunks))
        asked = Run(port=counted.process.port, path=path, kind="paced", clients=PACED, size=2, model=model)
        bench.run(asked)
        time.sleep(0.5)
        costs.append(counted.take() / PACED / 1e6)
    bench.mode(Mode())
    return (costs[2] - costs[1]) / PACED_CHUNKS


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


def cost_of_next_turn(bench: Bench, counted: Counted, path: str, model: str = MODEL) -> float:
    asked = Run(port=counted.process.port, path=path, kind="open", clients=CLIENTS, requests=CLIENTS)
    asked.model = model
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

"""What the inspector adds to a request of the gateway: an agent's of 87 KB, translated and streamed.

Three gateways: without an inspector, with one that records figures, and with one that records content too. Instructions of the whole
process, counted by callgrind, so that other programs of the machine do not count; with what is recorded later, in a thread. What the
kernel does is not counted, and neither is what waits. Needs Linux and valgrind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Final

from bench.gateway import MESSAGES, NATIVE
from bench.gateway_load import Run
from bench.gateway_processes import Bench, open_bench
from bench.instructions import Counted, cost_of, cost_of_next_turn

_ROUNDS: Final = 2
OFF, FIGURES, CONTENT = "no inspector", "figures", "content"
SETTINGS: Final = {
    OFF: "enabled = false",
    FIGURES: 'enabled = true\ncontent = "off"',
    CONTENT: 'enabled = true\ncontent = "memory"',
}
GOALS: Final = {FIGURES: 1.03, CONTENT: 1.10}


def run() -> None:
    if which("valgrind") is None:
        print("valgrind is not installed: no instructions are counted", flush=True)
        return
    with TemporaryDirectory() as folder, open_bench() as bench:
        found = {name: _costs(bench, Path(folder), name, settings) for name, settings in SETTINGS.items()}
    for name, goal in GOALS.items():
        for kind, cost in found[name].items():
            floor = found[OFF][kind]
            print(
                f"inspector: {name:<8} {kind:<24} {cost:.2f} millions of instructions, {cost / floor:.3f} × {floor:.2f}   "
                f"goal {goal} ×",
                flush=True,
            )


def _costs(bench: Bench, folder: Path, name: str, settings: str) -> dict[str, float]:
    """By kind of request: the least of some rounds, which differ by a hundredth or two."""
    word = name.replace(" ", "-")
    counted = Counted(
        folder,
        word,
        lambda under: bench.open_gateway(word, settings=f"[gateway.inspect]\n{settings}", under=under),
    )
    found: dict[str, float] = {}
    for kind, run in (
        ("translated", Run(port=0, path=MESSAGES)),
        ("forwarded", Run(port=0, path=MESSAGES, model=NATIVE)),
    ):
        found[kind] = _least(partial(cost_of, bench, counted, run, MESSAGES))
    found["next turn"] = _least(partial(cost_of_next_turn, bench, counted, MESSAGES))
    time.sleep(0.5)
    counted.process.process.terminate()
    return found


def _least(measure: Callable[[], float]) -> float:
    """Of some rounds. A round in which a request was refused, as happens to a machine that is too busy, does not count."""
    found: list[float] = []
    for _ in range(3 * _ROUNDS):
        with suppress(RuntimeError):
            found.append(measure())
        if len(found) == _ROUNDS:
            break
    return min(found)

"""What the inspector adds to a request of the gateway: an agent's of 87 KB, translated and streamed.

Three gateways side by side: without an inspector, with one that records figures, and with one that records content too. CPU time of
the whole process in interleaved rounds: by the best round, and by sums. Both hold what is recorded later, in a thread.
"""

from __future__ import annotations

import time
from typing import Final

from bench.callers import REQUESTS, served
from bench.gateway_processes import Measured, open_bench

ROUNDS: Final = 20
OFF, FIGURES, CONTENT = "no inspector", "figures", "content"
GOALS: Final = {FIGURES: 1.03, CONTENT: 1.10}


def run() -> None:
    with open_bench() as bench:
        gateways: dict[str, Measured] = {
            OFF: bench.open_gateway("off", settings="[gateway.inspect]\nenabled = false"),
            FIGURES: bench.open_gateway("figures", settings='[gateway.inspect]\ncontent = "off"'),
            CONTENT: bench.open_gateway("content", settings='[gateway.inspect]\ncontent = "memory"'),
        }
        for gateway in gateways.values():
            served(bench, gateway, REQUESTS)  # warms up
        time.sleep(1)
        costs: dict[str, list[float]] = {name: [] for name in gateways}
        for _ in range(ROUNDS):
            for name, gateway in gateways.items():
                before = gateway.cpu()
                figures = served(bench, gateway, REQUESTS)
                time.sleep(0.4)  # what is recorded later is part of its cost
                costs[name].append((gateway.cpu() - before) / figures.requests)
        for name, goal in GOALS.items():
            best = min(costs[name]) / min(costs[OFF])
            total = sum(costs[name]) / sum(costs[OFF])
            print(
                f"inspector: {name:<8} {1000 * min(costs[name]):.2f} ms of CPU, {best:.3f} × no inspector; "
                f"sums {total:.3f} ×   goal {goal} ×"
            )

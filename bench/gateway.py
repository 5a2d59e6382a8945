"""The gateway against the bare stack that passes the same bytes on, and against the floor of parsing and encoding them.

Everything an installation would have is on: callers, limits, the access log, the memory of replies. Ratios of CPU time
within one run; minima of rounds, in which both sides take turns. Needs Linux.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from msgspec import structs

from bench.gateway_load import RAMP_SECONDS, Figures, Run
from bench.gateway_processes import Bench, Measured, open_bench
from bench.gateway_requests import MODEL
from bench.gateway_translation import chunk_rows, history_rows
from bench.gateway_upstream import PACE, Mode

ROUNDS = 4
NATIVE = f"anthropic/{MODEL}"
"""By this name the client's own bytes go through."""
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
STREAMS = 700
PACED_SECONDS = RAMP_SECONDS + 7.0


def run() -> None:
    with open_bench() as bench:
        _warm_up(bench)
        idle = bench.gateway.memory()
        _print("87 KB translated, first sight, streamed, c=8", *_first_sight(bench), 2.2)
        _print("87 KB same wire forwarded, streamed, c=8", *_forwarded(bench, stream=True), 1.15)
        _print("87 KB same wire forwarded, whole, c=8", *_forwarded(bench, stream=False), 1.15)
        _print("next turn of 8 to 34 messages, streamed, c=8", *_next_turns(bench), 1.5)
        _print("added to the first byte, p50, 87 KB, c=1", *_added_latency(bench), 1.6)
        for name, ratio, note, goal in (*history_rows(), *chunk_rows()):
            _print(name, ratio, note, goal)
        _against_litellm(bench)
        _paced(bench)
        _print("memory, idle", idle, "MB", 80)
        _print("memory, after all this", bench.gateway.memory(), "MB")


def _print(name: str, value: float, note: str, goal: float | None = None) -> None:
    met = "" if goal is None else f"   goal {goal:g}"
    print(f"{name:<56}{value:>9.2f} {note}{met}", flush=True)


def _warm_up(bench: Bench) -> None:
    for measured, path, model in (
        (bench.bare, CHAT, MODEL),
        (bench.bare, MESSAGES, NATIVE),
        (bench.gateway, MESSAGES, MODEL),
        (bench.gateway, MESSAGES, NATIVE),
    ):
        for stream in (True, False):
            warm = Run(port=measured.port, path=path, requests=40, clients=8, stream=stream, model=model)
            _run(bench, warm)


def _run(bench: Bench, run: Run) -> Figures:
    figures = bench.run(run)
    if figures.refused or figures.incomplete:
        failed = f"{figures.refused} refused, {figures.incomplete} incomplete: {figures.statuses}"
        raise RuntimeError(f"{failed}\n{bench.last_lines()}")
    return figures


def _cost(bench: Bench, measured: Measured, run: Run) -> float:
    """CPU seconds of a request."""
    before = measured.cpu()
    figures = _run(bench, run)
    time.sleep(0.05)  # what follows a reply is part of its cost
    return (measured.cpu() - before) / figures.requests


def _ratio(ours: Callable[[], float], bare: Callable[[], float]) -> tuple[float, str]:
    rounds = [(ours(), bare()) for _ in range(ROUNDS)]
    best, floor = min(one for one, _ in rounds), min(other for _, other in rounds)
    return best / floor, f"× bare CPU ({1000 * best:.2f} and {1000 * floor:.2f} ms)"


def _first_sight(bench: Bench) -> tuple[float, str]:
    ours = Run(port=bench.gateway.port, path=MESSAGES, requests=150, clients=8)
    bare = Run(port=bench.bare.port, path=CHAT, requests=150, clients=8)
    return _ratio(lambda: _cost(bench, bench.gateway, ours), lambda: _cost(bench, bench.bare, bare))


def _forwarded(bench: Bench, *, stream: bool) -> tuple[float, str]:
    ours = Run(port=bench.gateway.port, path=MESSAGES, stream=stream, model=NATIVE, requests=150, clients=8)
    bare = structs.replace(ours, port=bench.bare.port)
    return _ratio(lambda: _cost(bench, bench.gateway, ours), lambda: _cost(bench, bench.bare, bare))


def _next_turns(bench: Bench) -> tuple[float, str]:
    """Conversations of six messages get fourteen turns more."""

    def cost(measured: Measured, path: str) -> float:
        run = Run(port=measured.port, path=path, kind="open", clients=8, requests=8)
        _run(bench, run)
        time.sleep(0.05)
        run.kind, run.requests = "continue", 14
        return _cost(bench, measured, run)

    return _ratio(lambda: cost(bench.gateway, MESSAGES), lambda: cost(bench.bare, CHAT))


def _added_latency(bench: Bench) -> tuple[float, str]:
    """How much later the first byte of a stream comes than without anything in between."""

    def p50(port: int, path: str) -> float:
        run = Run(port=port, path=path, requests=80, clients=1)
        return median(_run(bench, run).first_bytes)

    rounds = [
        (p50(bench.gateway.port, MESSAGES), p50(bench.bare.port, CHAT), p50(bench.upstream_port, CHAT))
        for _ in range(ROUNDS)
    ]
    ours, bare, direct = (float(min(times)) for times in zip(*rounds, strict=True))
    added, floor = ours - direct, bare - direct
    return added / floor, f"× bare's ({1000 * added:.2f} and {1000 * floor:.2f} ms)"


def _against_litellm(bench: Bench) -> None:
    if bench.litellm is None:
        print("LiteLLM is not installed: no comparison with it", flush=True)
        return
    for stream, goal in ((False, 30), (True, 80)):
        fast = Run(port=bench.gateway.port, path=MESSAGES, requests=150, clients=8, stream=stream)
        slow = Run(port=bench.litellm.port, path=MESSAGES, requests=24, clients=8, stream=stream)
        _run(bench, slow)
        cost = _cost(bench, bench.litellm, slow) / _cost(bench, bench.gateway, fast)
        theirs, ours = _run(bench, slow), _run(bench, fast)
        speed = (ours.requests / ours.seconds) / (theirs.requests / theirs.seconds)
        kind = "streamed" if stream else "whole"
        _print(f"87 KB {kind}, c=8, requests/s", speed, "× LiteLLM", goal)
        _print(f"87 KB {kind}, c=8, CPU of LiteLLM", cost, "× ours")
    _print("memory of LiteLLM", bench.litellm.memory(), "MB")


def _paced(bench: Bench) -> None:
    """Many streams that stay open. The share of one core is measured while all of them run."""
    bench.mode(Mode(paced_chunks=round(PACED_SECONDS / PACE)))
    for name, measured, path, model in (
        ("bare", bench.bare, CHAT, MODEL),
        ("translated", bench.gateway, MESSAGES, MODEL),
        ("forwarded", bench.gateway, MESSAGES, NATIVE),
    ):
        bench.begin(Run(port=measured.port, path=path, kind="paced", clients=STREAMS, size=2, model=model))
        time.sleep(RAMP_SECONDS + 1.5)
        cpu, others, wall = measured.cpu(), bench.cpu_of_others(), time.monotonic()
        time.sleep(4.0)
        seconds = time.monotonic() - wall
        share, share_of_others = (measured.cpu() - cpu) / seconds, (bench.cpu_of_others() - others) / seconds
        memory = measured.memory()
        figures = bench.end()
        lags, first = sorted(figures.latencies), sorted(figures.first_bytes)
        title = f"{STREAMS} streams of {1 / PACE:g} chunks/s, {name}"
        _print(title, 100 * share, "% of a core", None if name == "bare" else 80)
        _print("  provider and clients", 100 * share_of_others, "% of a core")
        _print("  refused", figures.refused, "streams")
        _print("  a chunk on its way, p50", 1000 * lags[len(lags) // 2], "ms")
        _print("  a chunk on its way, p99", 1000 * lags[len(lags) * 99 // 100], "ms")
        _print("  first byte, p99", 1000 * first[len(first) * 99 // 100], "ms")
        _print("  memory", memory, "MB")

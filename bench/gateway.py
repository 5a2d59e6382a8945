"""The gateway against the bare stack that passes the same bytes on, and against the floor of parsing and encoding them.

Everything an installation would have is on: callers, limits, the access log, the memory of replies. Ratios of CPU time
within one run; minima of rounds, in which both sides take turns. Needs Linux.
"""

from __future__ import annotations

import platform
import sysconfig
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
        print(
            f"CPython {platform.python_version()}, {_build()}; bare: uvicorn and aiohttp; raw: asyncio and httptools"
        )
        rows: tuple[tuple[str, Run, str, float | None], ...] = (
            ("translated, first sight, streamed", Run(port=0, path=MESSAGES), CHAT, 1.7),
            ("translated, first sight, whole", Run(port=0, path=MESSAGES, stream=False), CHAT, 2.2),
            ("forwarded, streamed", Run(port=0, path=MESSAGES, model=NATIVE), MESSAGES, 1.4),
            ("forwarded, whole", Run(port=0, path=MESSAGES, model=NATIVE, stream=False), MESSAGES, 2.0),
        )
        for title, run, path, goal in rows:
            _print(f"87 KB {title}, c=8", *_against_stacks(bench, run, path), goal)
        _print("next turn of 8 to 34 messages, streamed, c=8", *_next_turns(bench), 1.5)
        _print("added to the first byte, p50, 87 KB, c=1", *_added_latency(bench, stream=True), 1.3)
        _print("added to a whole reply, p50, 87 KB, c=1", *_added_latency(bench, stream=False), 2.0)
        for name, ratio, note, goal in (*history_rows(), *chunk_rows()):
            _print(name, ratio, note, goal)
        _against(bench, "LiteLLM", bench.litellm, 24, (25, 70))
        _against(bench, "Switchyard", bench.switchyard, 150, (2, 2))
        _paced(bench)
        _print("memory, idle", idle, "MB", 80)
        _print("memory, after all this", bench.gateway.memory(), "MB")


def _print(name: str, value: float, note: str, goal: float | None = None) -> None:
    met = "" if goal is None else f"   goal {goal:g}"
    print(f"{name:<56}{value:>9.2f} {note}{met}", flush=True)


def _warm_up(bench: Bench) -> None:
    for measured, path, model in (
        (bench.raw, CHAT, MODEL),
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


def _ratios(*costs: Callable[[], float]) -> tuple[float, str]:
    """Of ours, the bare and the raw stack, in turn."""
    rounds = [[cost() for cost in costs] for _ in range(ROUNDS)]
    ours, bare, raw = (min(times) for times in zip(*rounds, strict=True))
    times = f"{1000 * ours:.2f}, {1000 * bare:.2f} and {1000 * raw:.2f} ms"
    return ours / bare, f"× bare CPU, {ours / raw:.2f} × raw ({times})"


def _against_stacks(bench: Bench, run: Run, path: str) -> tuple[float, str]:
    def cost(measured: Measured, path: str) -> float:
        asked = structs.replace(run, port=measured.port, path=path, requests=150, clients=8)
        return _cost(bench, measured, asked)

    return _ratios(
        lambda: cost(bench.gateway, MESSAGES), lambda: cost(bench.bare, path), lambda: cost(bench.raw, path)
    )


def _next_turns(bench: Bench) -> tuple[float, str]:
    """Conversations of six messages get fourteen turns more."""

    def cost(measured: Measured, path: str) -> float:
        run = Run(port=measured.port, path=path, kind="open", clients=8, requests=8)
        _run(bench, run)
        time.sleep(0.05)
        run.kind, run.requests = "continue", 14
        return _cost(bench, measured, run)

    return _ratios(
        lambda: cost(bench.gateway, MESSAGES), lambda: cost(bench.bare, CHAT), lambda: cost(bench.raw, CHAT)
    )


def _added_latency(bench: Bench, *, stream: bool) -> tuple[float, str]:
    """How much later the first byte of a stream, or a whole reply, comes than without anything in between."""

    def p50(port: int, path: str) -> float:
        figures = _run(bench, Run(port=port, path=path, requests=80, clients=1, stream=stream))
        return median(figures.first_bytes if stream else figures.latencies)

    rounds = [
        (p50(bench.gateway.port, MESSAGES), p50(bench.bare.port, CHAT), p50(bench.upstream_port, CHAT))
        for _ in range(ROUNDS)
    ]
    ours, bare, direct = (float(min(times)) for times in zip(*rounds, strict=True))
    added, floor = ours - direct, bare - direct
    return added / floor, f"× bare's ({1000 * added:.2f} and {1000 * floor:.2f} ms)"


def _against(
    bench: Bench, name: str, peer: Measured | None, requests: int, goals: tuple[float, float]
) -> None:
    if peer is None:
        print(f"{name} is not installed: no comparison with it", flush=True)
        return
    for stream, goal in zip((False, True), goals, strict=True):
        our_run = Run(port=bench.gateway.port, path=MESSAGES, requests=150, clients=8, stream=stream)
        their_run = structs.replace(our_run, port=peer.port, requests=requests)
        _run(bench, their_run)
        cost = _cost(bench, peer, their_run) / _cost(bench, bench.gateway, our_run)
        theirs, ours = _run(bench, their_run), _run(bench, our_run)
        speed = (ours.requests / ours.seconds) / (theirs.requests / theirs.seconds)
        kind = "streamed" if stream else "whole"
        _print(f"87 KB {kind}, c=8, requests/s", speed, f"× {name}")
        _print(f"87 KB {kind}, c=8, CPU of {name}", cost, "× ours", goal)
    _print(f"memory of {name}", peer.memory(), "MB")


def _build() -> str:
    """How this interpreter was compiled: with PGO and LTO it is a fifth faster."""
    words = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimised = [word for word in ("--enable-optimizations", "--with-lto") if word in words]
    return " ".join(optimised) or "built without PGO and LTO"


def _paced(bench: Bench) -> None:
    """Many streams that stay open. The share of one core is measured while all of them run."""
    bench.mode(Mode(paced_chunks=round(PACED_SECONDS / PACE)))
    for name, measured, path, model in (
        ("raw", bench.raw, CHAT, MODEL),
        ("bare", bench.bare, CHAT, MODEL),
        ("translated", bench.gateway, MESSAGES, MODEL),
        ("forwarded", bench.gateway, MESSAGES, NATIVE),
    ):
        before = measured.memory()
        bench.begin(Run(port=measured.port, path=path, kind="paced", clients=STREAMS, size=2, model=model))
        time.sleep(RAMP_SECONDS + 1.5)
        cpu, others, wall = measured.cpu(), bench.cpu_of_others(), time.monotonic()
        time.sleep(4.0)
        seconds = time.monotonic() - wall
        share, share_of_others = (measured.cpu() - cpu) / seconds, (bench.cpu_of_others() - others) / seconds
        memory = measured.memory()
        of_a_stream = (memory - before) * 1024 / STREAMS
        figures = bench.end()
        lags, first = sorted(figures.latencies), sorted(figures.first_bytes)
        title = f"{STREAMS} streams of {1 / PACE:g} chunks/s, {name}"
        _print(title, 100 * share, "% of a core", None if name in ("bare", "raw") else 48)
        _print("  provider and clients", 100 * share_of_others, "% of a core")
        _print("  refused", figures.refused, "streams")
        _print("  a chunk on its way, p50", 1000 * lags[len(lags) // 2], "ms")
        _print("  a chunk on its way, p99", 1000 * lags[len(lags) * 99 // 100], "ms")
        _print("  first byte, p99", 1000 * first[len(first) * 99 // 100], "ms")
        _print("  memory", memory, "MB")
        # What a process has freed stays with it for a while, so a second round of streams finds less to take.
        _print("  memory of an active stream", of_a_stream, "KB", None if name in ("bare", "raw") else 80)

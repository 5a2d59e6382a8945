"""What counting callers and telemetry add to a request of the gateway: an agent's of 87 KB, translated and streamed.

Four gateways side by side: a caller without limits; with a budget and limits, kept in SQLite and in PostgreSQL; and with
metrics and traces. CPU time in interleaved rounds, by minima; and by sums, which hold what threads do later. Latency of whole requests with one client: of two callers of one
gateway, with and without limits, in turn, many times over, and the median of what these neighbours differ by.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.gateway_load import KEY, Client, Figures, Run, request_of
from bench.gateway_processes import Bench, Measured, open_bench
from bench.gateway_requests import AgentSession
from postgres_server import installation, own_server
from segue.config.schema import Allowance
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import Charge
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import Admission, Settlement, UsageRow

ROUNDS: Final = 40
REQUESTS: Final = 10
ROUNDS_OF_FOUR: Final = 520
"""Of latency."""
WARM: Final = 20
"""Rounds that do not count."""
EXPORT_SECONDS: Final = 3
"""Between two exports of spans and measurements. It is five and sixty without this."""
LIMITED_KEY: Final = "sk-bench-limits-7d1e52c80b3f4a96e2d1c7ab34ef6812"
CHECKS: Final = 200
MESSAGES: Final = "/v1/messages"
PLAIN, LIMITED, LIMITED_POSTGRES, TELEMETRY = (
    "no limits",
    "limits",
    "limits, PostgreSQL",
    "metrics and traces",
)
LIMITS: Final = (
    "requests_per_minute = 1000000\ntokens_per_minute = 1000000000\nconcurrent = 1000\n"
    "dollars_per_day = 100000\ndollars_per_month = 1000000"
)


def run() -> None:
    asyncio.run(_checks_alone())
    with ExitStack() as stack:
        bench = stack.enter_context(open_bench())
        gateways = {
            PLAIN: bench.gateway,
            LIMITED: bench.open_gateway("limits", limits=LIMITS),
            TELEMETRY: bench.open_gateway(
                "telemetry",
                settings="[gateway.telemetry]\nmetrics = true\ntraces = true",
                OTEL_BSP_SCHEDULE_DELAY=str(1000 * EXPORT_SECONDS),
                OTEL_METRIC_EXPORT_INTERVAL=str(1000 * EXPORT_SECONDS),
                OTEL_EXPORTER_OTLP_ENDPOINT=stack.enter_context(_collector()),
            ),
        }
        if installation() is not None:
            server = stack.enter_context(own_server(settings=("max_connections=60",)))
            gateways[LIMITED_POSTGRES] = bench.open_gateway(
                "postgres", limits=LIMITS, SEGUE_STORE=server.url("callers")
            )
        _print_costs(*_costs(bench, gateways))
        both = bench.open_gateway("both", settings=_caller_settings(LIMITED_KEY, LIMITS))
        _print_added(asyncio.run(_added(both.port)))


def _caller_settings(key: str, limits: str) -> str:
    return f'[gateway.callers.limited]\nkey_sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n{limits}\n'


async def _checks_alone() -> None:
    """What a request waits for before it is sent, and all that counting it costs."""
    account = Account(name="bench", allowance=msgspec.convert(tomllib.loads(LIMITS), Allowance))
    with TemporaryDirectory() as folder:
        store = SQLiteAccountStore(Path(folder) / "accounts.db")
        waits: list[float] = []
        costs: list[float] = []
        for _ in range(ROUNDS):
            before = time.process_time()
            for number in range(CHECKS):
                began = time.perf_counter()
                admission = await store.admit(f"{len(waits)}-{number}", account, Charge(20_000, 90_000))
                waits.append(time.perf_counter() - began)
                assert isinstance(admission, Admission)
                row = UsageRow(day="2027-01-31", caller="bench", asked="fast", route="a/b", requests=1)
                await store.settle([Settlement(admission, Charge(21_000, 95_000), (row,))])
            costs.append((time.process_time() - before) / CHECKS)
        await store.close()
    print(
        f"callers: checks alone, SQLite: {1000 * median(waits):.2f} ms before a request in the median   goal 0.2 ms; "
        f"{1000 * min(costs):.2f} ms of CPU with settling and usage"
    )


def _costs(bench: Bench, gateways: dict[str, Measured]) -> tuple[dict[str, float], dict[str, float]]:
    """CPU seconds of a request: of the best round, and of all together."""
    costs: dict[str, list[float]] = {name: [] for name in gateways}
    for gateway in gateways.values():
        served(bench, gateway, REQUESTS)  # warms up
    time.sleep(EXPORT_SECONDS)
    began = {name: gateway.cpu() for name, gateway in gateways.items()}
    for _ in range(ROUNDS):
        for name, gateway in gateways.items():
            before = gateway.cpu()
            figures = served(bench, gateway, REQUESTS)
            time.sleep(0.05)  # what follows a reply is part of its cost
            costs[name].append((gateway.cpu() - before) / figures.requests)
    time.sleep(2 * EXPORT_SECONDS)
    requests = ROUNDS * REQUESTS
    sums = {name: (gateway.cpu() - began[name]) / requests for name, gateway in gateways.items()}
    return {name: min(each) for name, each in costs.items()}, sums


class Round(NamedTuple):
    """Four requests."""

    seconds: float
    added: float


async def _added(port: int) -> list[Round]:
    """By how many seconds a request of the caller with limits is later than one of the caller without, in each round of four:
    one, the other twice, and the first again, so that whatever slows the machine down slows both."""
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(Client, "127.0.0.1", port)
    run = Run(port=port, path=MESSAGES)

    async def seconds(key: str) -> float:
        request = request_of(AgentSession(size=run.size, stream=run.stream, model=run.model), run)
        asked = request.replace(KEY.encode(), key.encode())
        began = time.perf_counter()
        await client.ask(asked)
        taken = time.perf_counter() - began
        if client.status != 200:
            raise RuntimeError(f"a request was refused with status {client.status}")
        return taken

    rounds = []
    for _ in range(ROUNDS_OF_FOUR):
        first, second, third, last = [await seconds(key) for key in (KEY, LIMITED_KEY, LIMITED_KEY, KEY)]
        rounds.append(Round(first + second + third + last, (second + third - first - last) / 2))
    client.transport.close()
    return rounds[WARM:]


def served(bench: Bench, gateway: Measured, requests: int) -> Figures:
    figures = bench.run(Run(port=gateway.port, path=MESSAGES, requests=requests, clients=1))
    if figures.refused:
        raise RuntimeError(f"requests were refused: {figures.statuses}")
    return figures


def _print_costs(costs: dict[str, float], sums: dict[str, float]) -> None:
    floor = costs[PLAIN]
    print(f"callers: a request of 87 KB, {1000 * floor:.2f} ms of CPU without limits")
    for name, cost in list(costs.items())[1:]:
        goal = "   goal 0.9 ×" if name == TELEMETRY else ""
        print(
            f"  {name:<20}{1000 * (cost - floor):>7.2f} ms more CPU: {floor / cost:.2f} × as many requests{goal}; in all "
            f"{1000 * (sums[name] - sums[PLAIN]):.2f} ms, {sums[PLAIN] / sums[name]:.2f} ×"
        )
    if LIMITED_POSTGRES in costs:
        share = costs[LIMITED] / costs[LIMITED_POSTGRES]
        print(f"  PostgreSQL against SQLite, both with limits: {share:.2f} × as many requests   goal 0.8 ×")


def _print_added(rounds: list[Round]) -> None:
    """Of all rounds, and of the quarter that took the least time for all four requests: other programs have not disturbed
    those, and neither caller is favoured by choosing them."""
    for name, chosen in (
        ("all", rounds),
        ("the fastest", sorted(rounds)[: len(rounds) // 4]),
    ):
        added = sorted(each.added for each in chosen)
        low, middle, high = (1000 * added[len(added) * share // 4] for share in (1, 2, 3))
        print(
            f"  limits: a request is {middle:.2f} ms later in the median of {name} {len(added)} rounds (half of them {low:.2f} to "
            f"{high:.2f})   goal 0.2 ms"
        )


@contextmanager
def _collector() -> Iterator[str]:
    """Takes what OpenTelemetry exports, and forgets it."""

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    run()

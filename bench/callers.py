"""What counting callers and telemetry add to a request of the gateway: an agent's of 87 KB, translated and streamed.

Four gateways side by side: a caller without limits; with a budget and limits, kept in SQLite and in PostgreSQL; and with
metrics and traces. Rounds are interleaved. CPU time by minima; latency with one client by medians. Before that the checks
alone, in this process: on a busy machine the latency of a whole request says little.
"""

from __future__ import annotations

import asyncio
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
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.gateway_load import Run
from bench.gateway_processes import Bench, Measured, open_bench
from postgres_server import installation, own_server
from segue.config.schema import Allowance
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.admission import Charge
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import Admission, UsageRow

ROUNDS: Final = 10
REQUESTS: Final = 30
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
                OTEL_EXPORTER_OTLP_ENDPOINT=stack.enter_context(_collector()),
            ),
        }
        if installation() is not None:
            server = stack.enter_context(own_server(settings=("max_connections=60",)))
            gateways[LIMITED_POSTGRES] = bench.open_gateway(
                "postgres", limits=LIMITS, SEGUE_STORE=server.url("callers")
            )
        costs, latencies = _measured(bench, gateways)
    _print(costs, latencies)


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
                await store.settle(admission, Charge(21_000, 95_000), row)
            costs.append((time.process_time() - before) / CHECKS)
        await store.close()
    print(
        f"callers: checks alone, SQLite: {1000 * median(waits):.2f} ms before a request in the median   goal 0.2 ms; "
        f"{1000 * min(costs):.2f} ms of CPU with settling and usage"
    )


def _measured(
    bench: Bench, gateways: dict[str, Measured]
) -> tuple[dict[str, list[float]], dict[str, list[list[float]]]]:
    """CPU seconds of a request and the latencies, by round."""
    costs: dict[str, list[float]] = {name: [] for name in gateways}
    latencies: dict[str, list[list[float]]] = {name: [] for name in gateways}
    for number in range(ROUNDS + 1):
        for name, gateway in gateways.items():
            before = gateway.cpu()
            figures = bench.run(Run(port=gateway.port, path=MESSAGES, requests=REQUESTS, clients=1))
            if figures.refused:
                raise RuntimeError(f"{name}: {figures.statuses}: requests were refused")
            time.sleep(0.05)  # what follows a reply is part of its cost
            if number:  # the first round warms up
                costs[name].append((gateway.cpu() - before) / figures.requests)
                latencies[name].append(figures.latencies)
    return costs, latencies


def _print(costs: dict[str, list[float]], latencies: dict[str, list[list[float]]]) -> None:
    floor = min(costs[PLAIN])
    print(f"callers: a request of 87 KB, {1000 * floor:.2f} ms of CPU without limits")
    for name in list(costs)[1:]:
        # Each round beside its neighbour: a machine that is busy for a while slows both.
        added = median(
            median(one) - median(plain) for one, plain in zip(latencies[name], latencies[PLAIN], strict=True)
        )
        cost = min(costs[name])
        goal = {LIMITED: "   goal 0.2 ms later", TELEMETRY: "   goal 0.9 ×"}.get(name, "")
        print(
            f"  {name:<20}{1000 * added:>7.2f} ms later in the median, {1000 * (cost - floor):.2f} ms more CPU: "
            f"{floor / cost:.2f} × as many requests{goal}"
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

"""PostgreSQL: a fenced append against a bare insert with the same durability, and the gateway with it against SQLite.

A real server with fsync on, on a socket. Wall time; rounds are interleaved, and medians taken.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.gateway_load import Run
from bench.gateway_processes import Bench, Measured, open_bench
from postgres_server import PostgresServer, installation, own_server
from segue.conversation.message import user
from segue.databases.postgres.connection import DatabaseConnection
from segue.databases.postgres.database import Database
from segue.sessions.entries import SessionStarted, UserSaid
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.leases import this_process
from segue.sessions.stores.postgres import PostgresStore

ROUNDS: Final = 7
ENTRY: Final = EncodedEntry.of(UserSaid(user("A question of some hundred characters. " * 18)))
MESSAGES: Final = "/v1/messages"


def run() -> None:
    if installation() is None:
        print("postgres: no PostgreSQL for this platform")
        return
    with own_server(settings=("max_connections=60",)) as server:
        asyncio.run(_appends(server))
        _gateways(server)


async def _appends(server: PostgresServer) -> None:
    print(f"postgres: fenced appends of {len(ENTRY.body)} bytes, durable one by one, against bare inserts")
    store = PostgresStore(server.url())
    await store.find(limit=1)
    bare = Database(
        server.url("bare"),
        part="bare",
        steps=[(1, "CREATE TABLE {schema}.bare (number bigserial, body bytea)")],
    )
    for writers, each in ((1, 100), (8, 40)):
        taken: dict[str, list[float]] = {"bare insert": [], "fenced append": []}
        for _ in range(ROUNDS):
            taken["bare insert"].append(await _insert(bare, writers, each))
            taken["fenced append"].append(await _append(store, writers, each))
        floor = median(taken["bare insert"])
        for name, times in taken.items():
            rate = writers * each / median(times)
            print(
                f"  {writers} writers  {name:<16}{rate:>8.0f}/s  {floor / median(times):.2f} × the bare insert"
            )
    await store.close()
    await bare.close()


async def _insert(database: Database, writers: int, each: int) -> float:
    """The cheapest statement through the same threads and the same driver."""

    def insert(connection: DatabaseConnection) -> None:
        connection.execute("INSERT INTO {schema}.bare (body) VALUES (%b)", ENTRY.body)

    async def write() -> None:
        for _ in range(each):
            await database.run(insert)

    start = perf_counter()
    await asyncio.gather(*(write() for _ in range(writers)))
    return perf_counter() - start


async def _append(store: PostgresStore, writers: int, each: int) -> float:
    started = EncodedEntry.of(SessionStarted())
    leases = [await store.create(f"b{perf_counter()}"[:90], started, this_process()) for _ in range(writers)]

    async def write(number: int) -> None:
        for _ in range(each):
            await store.append(leases[number], [ENTRY])

    start = perf_counter()
    await asyncio.gather(*(write(number) for number in range(writers)))
    return perf_counter() - start


def _gateways(server: PostgresServer) -> None:
    with open_bench() as bench:
        gateways = {
            "SQLite": bench.gateway,
            "PostgreSQL": bench.open_gateway("postgres", SEGUE_STORE=server.url("gateway")),
        }
        for clients in (1, 8):
            rates: dict[str, list[float]] = {name: [] for name in gateways}
            costs: dict[str, list[float]] = {name: [] for name in gateways}
            for _ in range(ROUNDS):
                for name, gateway in gateways.items():
                    rate, cost = _served(bench, gateway, clients)
                    rates[name].append(rate)
                    costs[name].append(cost)
            ratio = median(rates["PostgreSQL"]) / median(rates["SQLite"])
            shown = ", ".join(
                f"{name} {median(rates[name]):.0f}/s ({1000 * min(costs[name]):.1f} ms of CPU)"
                for name in gateways
            )
            print(
                f"  gateway, 87 KB translated, streamed, c={clients}: {shown}, {ratio:.2f} × as many with PostgreSQL"
            )


def _served(bench: Bench, gateway: Measured, clients: int) -> tuple[float, float]:
    """Requests per second, and CPU seconds of a request."""
    before = gateway.cpu()
    figures = bench.run(Run(port=gateway.port, path=MESSAGES, requests=60, clients=clients))
    if figures.refused:
        raise RuntimeError(f"{figures.statuses}: requests were refused\n{bench.last_lines()}")
    return figures.requests / figures.seconds, (gateway.cpu() - before) / figures.requests


if __name__ == "__main__":
    run()

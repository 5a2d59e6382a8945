"""How many requests a second of one caller can be counted: admitted and settled, by several processes on one store.

All of them want the same account, which is the worst case: callers of their own do not wait for each other in PostgreSQL. Run
with words after it, it is one of those processes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from postgres_server import installation, own_server
from segue.config.schema import AccountSettings, Allowance
from segue.databases.postgres.address import is_database_url
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import Charge
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.accounts.register import Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import AccountStore, UsageRow

SECONDS: Final = 4.0
PROCESSES: Final = (1, 2, 4)
AT_ONCE: Final = 8
"""Requests of each process."""
ACCOUNT: Final = Account(
    name="shared",
    allowance=Allowance(
        requests_per_minute=100_000_000,
        tokens_per_minute=1_000_000_000_000,
        concurrent=10_000,
        dollars_per_day=1e9,
        dollars_per_month=1e9,
    ),
)


class Counted(msgspec.Struct):
    """By one process."""

    requests: int
    seconds: float
    """Until all were settled."""
    waits: list[float]
    """Seconds that some of them waited before they were admitted."""


def run() -> None:
    with ExitStack() as stack:
        places = {"SQLite": str(Path(stack.enter_context(TemporaryDirectory())) / "accounts.db")}
        if installation() is not None:
            server = stack.enter_context(own_server(settings=("max_connections=60",)))
            places["PostgreSQL"] = server.url("shared")
        print(
            f"shared limits: requests of one caller, admitted and settled, {AT_ONCE} at a time in each process"
        )
        for name, place in places.items():
            for processes in PROCESSES:
                _measure(name, place, processes)


def _measure(name: str, place: str, processes: int) -> None:
    command = [sys.executable, "-m", "bench.shared_limits", place]
    root = Path(__file__).parents[1]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)  # noqa: S603 - our own words
        for _ in range(processes)
    ]
    for each in running:
        assert each.stdout is not None
        each.stdout.readline()
    for each in running:
        assert each.stdin is not None
        each.stdin.close()
    found = []
    for each in running:
        assert each.stdout is not None
        found.append(msgspec.json.decode(each.stdout.read(), type=Counted))
        each.wait()
        each.stdout.close()
    rate = sum(each.requests / each.seconds for each in found)
    waits = [wait for each in found for wait in each.waits]
    print(
        f"  {name:<12}{processes} processes {rate:>8.0f}/s   a request waits {1000 * median(waits):.1f} ms in the median, "
        f"{1000 * quantiles(waits, n=100)[98]:.1f} ms at most for 99 %"
    )


async def _count(place: str) -> Counted:
    store: AccountStore = PostgresAccountStore(place) if is_database_url(place) else SQLiteAccountStore(place)
    accounts = Accounts(store, {}, AccountSettings())
    counted = Counted(0, 0.0, [])
    row = UsageRow(day="2027-01-31", caller=ACCOUNT.name, asked="fast", route="a/b", requests=1)
    await accounts.admit(ACCOUNT, Charge())  # opens it
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    start = time.monotonic()
    end = start + SECONDS

    async def send() -> None:
        while (began := time.monotonic()) < end:
            admission = await accounts.admit(ACCOUNT, Charge(20_000, 90_000))
            counted.waits.append(time.monotonic() - began)
            await asyncio.sleep(0)  # as a request that waits for its reply lets others run
            accounts.ended(admission, Charge(21_000, 95_000), row)
            counted.requests += 1

    await asyncio.gather(*(send() for _ in range(AT_ONCE)))
    await accounts.close()
    counted.seconds = time.monotonic() - start
    counted.waits = counted.waits[:: max(1, len(counted.waits) // 2000)]
    return counted


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(asyncio.run(_count(sys.argv[1]))).decode())

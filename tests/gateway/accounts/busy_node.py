"""One process that sends as much of a caller's as its budget allows, until it is killed: `busy_node.py STORE FILE`.

For each request that it sends it writes a byte to the file, so that it is known what was sent whenever it dies.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from segue.config.schema import AccountSettings, Allowance
from segue.databases.postgres.address import is_database_url
from segue.errors import SegueError
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import Charge
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.accounts.register import Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import AccountStore, UsageRow

COST = Charge(10, 1000)
DOLLARS = 4.0
CALLER = Account(name="busy", allowance=Allowance(dollars_per_month=DOLLARS))
AT_ONCE = 12
ROW = UsageRow(day="2026-11-16", caller="busy", asked="fast", route="a/b", requests=1)


def open_store(place: str) -> AccountStore:
    return PostgresAccountStore(place) if is_database_url(place) else SQLiteAccountStore(place)


async def _send(accounts: Accounts, sent: int) -> None:
    while True:
        try:
            admission = await accounts.admit(CALLER, COST)
        except SegueError:
            await asyncio.sleep(0.02)
            continue
        os.write(sent, b".")
        await asyncio.sleep(random.uniform(0, 0.004))
        accounts.ended(admission, COST, ROW)


async def _run(place: str, file: str) -> None:
    accounts = Accounts(open_store(place), {}, AccountSettings())
    sent = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    await asyncio.gather(*(_send(accounts, sent) for _ in range(AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))

"""`segue usage`: what chats and the gateway's callers have used, by day, caller, model and route."""

from __future__ import annotations

import asyncio
import csv
import sys
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.lists import print_json, print_table
from segue.cli.display.terminal import print_status
from segue.cli.display.turn_summary import dollars
from segue.cli.exit_codes import Exit
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from segue.config.schema import Config
    from segue.gateway.accounts.store import UsageRow

DESCRIPTION = "Shows what your chats and the callers of the gateway have used: by default this month, summed up by caller and route."
CHATS = "(chats)"
"""The caller of saved sessions: chats on the screen and one-shots. No caller of the gateway can have this name."""
_SOURCES = ("all", "chats", "gateway")
_BY = {
    "day": ("day",),
    "caller": ("caller",),
    "route": ("caller", "route"),
    "all": ("day", "caller", "asked", "route"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="first", default="", metavar="DAY", help="default: the month's first (UTC)"
    )
    parser.add_argument("--to", dest="last", default="", metavar="DAY", help="default: today")
    parser.add_argument("--by", choices=_BY, default="route", help="what is summed up; default: route")
    parser.add_argument("--of", choices=_SOURCES, default="all", help="whose usage; default: all")
    parser.add_argument("--csv", action="store_true", help="print every row as CSV")
    parser.add_argument("--json", action="store_true", help="print every row as JSON")
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from segue.gateway.accounts.administration import usage_days  # noqa: PLC0415

    first, last = usage_days(arguments.first, arguments.last)
    config = read_settings(arguments.sets).config
    rows: list[UsageRow] = []
    if arguments.of != "chats":
        rows += _of_gateway(arguments, config)
    if arguments.of != "gateway":
        rows += asyncio.run(_of_chats(config, first, last))
    if arguments.json:
        print_json(rows)
    elif arguments.csv:
        _print_csv(rows)
    elif rows:
        _print_sums(rows, _BY[arguments.by])
    else:
        print_status("No requests in this period.")
    return Exit.OK


def _of_gateway(arguments: argparse.Namespace, config: Config) -> Sequence[UsageRow]:
    from segue.cli.commands.gateway_keys import with_administration  # noqa: PLC0415

    if arguments.of == "all" and config.gateway.memory.keep == "memory":
        return []  # it has kept nothing that could be read here
    return with_administration(arguments.sets, lambda admin: admin.usage(arguments.first, arguments.last))


async def _of_chats(config: Config, first: str, last: str) -> list[UsageRow]:
    from segue.config.session_stores import open_store  # noqa: PLC0415
    from segue.gateway.accounts.store import UsageRow, add_usage  # noqa: PLC0415
    from segue.sessions.expenses import expenses  # noqa: PLC0415

    store = open_store(config)
    sums: dict[tuple[str, str, str, str], UsageRow] = {}
    try:
        async for spent in expenses(store, first, last):
            place = spent.day, CHATS, spent.model, spent.model
            micros, unpriced = round((spent.cost or 0) * 1_000_000), int(spent.cost is None)
            row = UsageRow.of(
                place, spent.usage, micros=micros, unpriced=unpriced, requests=1, repairs=spent.repairs
            )
            add_usage(sums, row)
    finally:
        await store.close()
    return list(sums.values())


def _print_csv(rows: Sequence[UsageRow]) -> None:
    from msgspec import structs  # noqa: PLC0415

    from segue.gateway.accounts.store import UsageRow  # noqa: PLC0415

    writer = csv.writer(sys.stdout, lineterminator="\n")
    dollars = {"micros": "dollars", "lost_micros": "lost_dollars"}
    fields = [dollars.get(name, name) for name in UsageRow.__struct_fields__]
    writer.writerow(fields)
    for row in rows:
        values = structs.asdict(row)
        values |= {name: f"{values[name] / 1_000_000:.6f}" for name in dollars}
        # A text that a spreadsheet would take for a formula.
        cells = [sanitised(str(value)) for value in values.values()]
        writer.writerow([f"'{cell}" if cell[:1] in ("=", "+", "-", "@") else cell for cell in cells])


def _print_sums(rows: Sequence[UsageRow], by: tuple[str, ...]) -> None:
    sums: dict[tuple[str, ...], UsageRow] = {}
    for row in rows:
        place = tuple(getattr(row, name) for name in by)
        sums[place] = sums[place].plus(row) if place in sums else row
    heads = (
        "REQUESTS",
        "ERRORS",
        "INPUT",
        "CACHED",
        "LOST",
        "OUTPUT",
        "THOUGHT",
        "COST",
        "REPAIRS",
        "FAILOVERS",
    )
    table = [(*(name.upper() for name in by), *heads)]
    for place, row in sorted(sums.items()):
        cost = dollars(row.micros / 1_000_000) + ("+?" if row.unpriced else "")
        lost = f"{row.lost_tokens} ({dollars(row.lost_micros / 1_000_000)})" if row.lost_tokens else "0"
        tokens = (row.input_tokens, row.cached_tokens, lost, row.output_tokens, row.reasoning_tokens)
        numbers = (row.requests, row.errors, *tokens, cost, row.repairs, row.failovers)
        table.append((*place, *map(str, numbers)))
    print_table(table)
    if any(row.lost_tokens for row in sums.values()):
        print_status("LOST: tokens that should have been read from a cache, and what they cost more for it.")
    if any(row.unpriced for row in sums.values()):
        print_status("+?: the price of some models is not known.")

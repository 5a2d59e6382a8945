"""`segue usage`: what the gateway's callers have used, by day, caller, model and route."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set
from segue.cli.display.lists import print_json, print_table
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from segue.gateway.accounts.store import UsageRow

DESCRIPTION = (
    "Shows what the callers of the gateway have used: by default this month, summed up by caller and route."
)
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
    parser.add_argument("--csv", action="store_true", help="print every row as CSV")
    parser.add_argument("--json", action="store_true", help="print every row as JSON")
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from segue.cli.commands.gateway_keys import with_administration  # noqa: PLC0415

    rows = with_administration(arguments.sets, lambda admin: admin.usage(arguments.first, arguments.last))
    if arguments.json:
        print_json(rows)
    elif arguments.csv:
        _print_csv(rows)
    elif rows:
        _print_sums(rows, _BY[arguments.by])
    else:
        print_status("Nothing was used in these days.")
    return Exit.OK


def _print_csv(rows: Sequence[UsageRow]) -> None:
    from msgspec import structs  # noqa: PLC0415

    from segue.gateway.accounts.store import UsageRow  # noqa: PLC0415

    writer = csv.writer(sys.stdout, lineterminator="\n")
    fields = ["dollars" if name == "micros" else name for name in UsageRow.__struct_fields__]
    writer.writerow(fields)
    for row in rows:
        values = structs.asdict(row)
        values["micros"] = f"{row.micros / 1_000_000:.6f}"
        # A text that a spreadsheet would take for a formula.
        cells = [sanitised(str(value)) for value in values.values()]
        writer.writerow([f"'{cell}" if cell[:1] in ("=", "+", "-", "@") else cell for cell in cells])


def _print_sums(rows: Sequence[UsageRow], by: tuple[str, ...]) -> None:
    sums: dict[tuple[str, ...], UsageRow] = {}
    for row in rows:
        place = tuple(getattr(row, name) for name in by)
        sums[place] = sums[place].plus(row) if place in sums else row
    heads = ("REQUESTS", "ERRORS", "INPUT", "CACHED", "OUTPUT", "THOUGHT", "COST", "REPAIRS", "FAILOVERS")
    table = [(*(name.upper() for name in by), *heads)]
    for place, row in sorted(sums.items()):
        cost = f"${row.micros / 1_000_000:.4f}" + ("+?" if row.unpriced else "")
        tokens = (row.input_tokens, row.cached_tokens, row.output_tokens, row.reasoning_tokens)
        numbers = (row.requests, row.errors, *tokens, cost, row.repairs, row.failovers)
        table.append((*place, *map(str, numbers)))
    print_table(table)
    if any(row.unpriced for row in sums.values()):
        print_status("+?: the price of some models is not known.")

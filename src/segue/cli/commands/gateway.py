"""`segue gateway`: shows the conversations that run through the gateway, and makes keys for callers."""

from __future__ import annotations

import json
import secrets
import sys
import time
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.terminal_text import safe_json, sanitised

if TYPE_CHECKING:
    import argparse

    from segue.gateway.memory.store import ConversationInfo

DESCRIPTION = "Shows the conversations that run through the gateway, and makes keys for its callers."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("ps", help="list conversations, the last used first")
    listing.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="default: 20")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.add_argument("--url", default="", help="of a gateway elsewhere; its key is in SEGUE_GATEWAY_KEY")
    add_set(listing)
    key = actions.add_parser("key", help="make a key for a caller; print it and its settings")
    key.add_argument("name", metavar="NAME", help="of the caller: a person, a team, a machine")


def complete(words: list[str]) -> list[str]:
    return words or ["ps"]


def run(arguments: argparse.Namespace) -> int:
    return _make_key(arguments.name) if arguments.action == "key" else _list(arguments)


def _make_key(name: str) -> int:
    from hashlib import sha256  # noqa: PLC0415

    key = f"segue-{secrets.token_urlsafe(32)}"
    sys.stdout.write(key + "\n")
    print_status("This key is shown only now: give it to the caller. Add this to the configuration:")
    print_status(f"\n[gateway.callers.{json.dumps(name)}]")
    print_status(f'key_sha256 = "{sha256(key.encode()).hexdigest()}"')
    return Exit.OK


def _list(arguments: argparse.Namespace) -> int:
    from segue.cli.gateway_control import open_gateway_control  # noqa: PLC0415

    with open_gateway_control(arguments.url, arguments.sets) as control:
        shown = control.conversations(arguments.limit)
    if arguments.json:
        import msgspec  # noqa: PLC0415

        sys.stdout.write(safe_json(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()) + "\n")
        return Exit.OK
    if not shown:
        print_status("No conversation has run through the gateway yet.")
        return Exit.OK
    rows = [("ID", "CLIENT", "ASKS FOR", "ANSWERED BY", "SWITCHED TO", "REQUESTS", "LAST"), *map(_row, shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")
    return Exit.OK


def _row(info: ConversationInfo) -> tuple[str, ...]:
    seconds = max(0, round(time.time() - info.updated))
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    size, unit = next((one for one in units if seconds >= one[0]), (1, "s"))
    cells = (info.id, info.client.split(" ")[0][:30], info.asked, info.route, info.switched or "-")
    return (*map(sanitised, cells), str(info.requests), f"{seconds // size} {unit} ago")

"""`segue gateway`: shows the conversations that run through the gateway, makes keys for callers, and checks any gateway."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set
from segue.cli.commands import gateway_check, gateway_keys
from segue.cli.display.lists import print_json, print_table
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse

    from segue.gateway.memory.store import ConversationInfo

DESCRIPTION = "Shows the conversations that run through the gateway, makes keys for its callers, and checks any gateway."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("ps", help="list conversations, the last used first")
    listing.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="default: 20")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.add_argument("--url", default="", help="of a gateway elsewhere; its key is in SEGUE_GATEWAY_KEY")
    add_set(listing)
    keys = actions.add_parser("keys", help="make, list, change and revoke the keys of callers")
    gateway_keys.add_arguments(keys)
    checking = actions.add_parser("check", help="find out what any gateway keeps and what it loses")
    gateway_check.add_arguments(checking)
    taken = actions.add_parser("import", help="translate the configuration of another gateway; print ours")
    taken.add_argument("kind", choices=("litellm",), help="whose configuration it is")
    taken.add_argument("file", metavar="FILE", help="config.yaml")


def complete(words: list[str]) -> list[str]:
    return words or ["ps"]


def run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "keys":
            return gateway_keys.run(arguments)
        case "check":
            return gateway_check.run(arguments)
        case "import":
            return _import(arguments.file)
        case _:
            return _list(arguments)


def _import(path: str) -> int:
    """The settings on the standard output, and what has no match on the other one."""
    from segue.interop.litellm import translate  # noqa: PLC0415

    translation = translate(_read_yaml(path))
    sys.stdout.write(sanitised(translation.toml))
    for line in translation.missing:
        print_status(f"Not translated: {line}")
    print_status("Check it: SEGUE_CONFIG=FILE segue config check")
    return Exit.OK


def _read_yaml(path: str) -> object:
    from pathlib import Path  # noqa: PLC0415

    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", code="unreadable_file") from error
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UsageError(
            "Reading YAML needs PyYAML.",
            code="missing_extra",
            hint='In the clone of segue run: python -m pip install ".[litellm]"',
        ) from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path} is no YAML: {error}", code="not_yaml") from error


def _list(arguments: argparse.Namespace) -> int:
    from segue.cli.gateway_control import open_gateway_control  # noqa: PLC0415

    if arguments.limit < 1:
        raise UsageError(f"--limit is {arguments.limit}; it must be at least 1.")
    with open_gateway_control(arguments.url, arguments.sets) as control:
        shown = control.conversations(arguments.limit)
    if arguments.json:
        print_json(shown)
    elif shown:
        heads = ("ID", "CLIENT", "ASKS FOR", "ANSWERED BY", "SWITCHED TO", "REQUESTS", "LAST")
        print_table([heads, *map(_row, shown)])
    else:
        print_status("No conversation has run through the gateway yet.")
    return Exit.OK


def _row(info: ConversationInfo) -> tuple[str, ...]:
    seconds = max(0, round(time.time() - info.updated))
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    size, unit = next((one for one in units if seconds >= one[0]), (1, "s"))
    cells = (info.id, info.client.split(" ")[0][:30], info.asked, info.route or "-", info.switched or "-")
    return (*cells, str(info.requests), f"{seconds // size} {unit} ago")

"""`segue env`: prints what points a program at the gateway: variables, or lines of its configuration."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.lists import name_lines
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Prints what points a program at the gateway: variables for your shell, or lines for its configuration file.
    eval "$(segue env claude)"
Without CLIENT: lists the programs that are known. Start one directly: segue run CLIENT"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", metavar="CLIENT", nargs="?", default="")
    parser.add_argument("-m", "--model", default="", metavar="NAME", help="the model that it asks for")
    parser.add_argument("--url", default="", help="of the gateway; default: from the settings")
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from segue.cli import clients  # noqa: PLC0415

    if not arguments.client:
        known = clients.known_clients()
        sys.stdout.writelines(f"{line}\n" for line in name_lines(known, lambda name: known[name].title))
        return Exit.OK
    client = clients.find_client(arguments.client)
    config = read_settings(arguments.sets).config
    model = clients.model_for(client, arguments.model, config)
    # The key itself is not printed: it would stay in the scrollback and in shell histories.
    variable = clients.KEY_VARIABLE
    needs_key = clients.asks_for_key(config, elsewhere=bool(arguments.url))
    key = f"${variable}" if needs_key else clients.NO_KEY
    pointer = clients.Pointer(arguments.url.rstrip("/") or clients.gateway_url(config), key, model or "MODEL")
    if client.lines:
        print_status(f"# {client.file}")
        sys.stdout.write(pointer.fill(client.lines).lstrip("\n"))
    else:
        chosen = clients.Pointer(pointer.url, key, model)
        for name, value in clients.environment_of(client, chosen).items():
            quoted = f'"{value}"' if key.startswith("$") and key in value else shlex.quote(value)
            sys.stdout.write(f"export {name}={quoted}\n")
        if client.arguments and client.command:
            print_status(f"Then: {shlex.join([client.command, *clients.arguments_of(client, chosen)])}")
    if client.note:
        print_status(f"# {pointer.fill(client.note)}")
    if client.lines and variable in client.lines and not needs_key:
        print_status(f"# and in your shell: export {variable}={key}")
    return Exit.OK

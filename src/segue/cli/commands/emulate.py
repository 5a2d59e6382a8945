"""`segue emulate`: serves the strict emulators of the provider APIs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Serves strict emulators of the provider APIs until interrupted. They refuse what the real APIs refuse."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=8900, help="default: 8900; 0: any free port")
    parser.add_argument("--provider", default="", help="serve this provider at the root path too")
    parser.add_argument("--strict", action="store_true", help="also enforce rules that are less certain")
    parser.add_argument(
        "--env",
        action="store_true",
        help='print the exports that lead every provider there, and exit: eval "$(segue emulate --env)"',
    )
    parser.add_argument("--script", metavar="FILE", help="the replies of the models, and faults")


def run(arguments: argparse.Namespace) -> int:
    if arguments.env:
        sys.stdout.writelines(f"{line}\n" for line in exports(f"http://{arguments.host}:{arguments.port}"))
        return Exit.OK
    from segue.emulators.script import ScriptError  # noqa: PLC0415
    from segue.emulators.server import run as serve  # noqa: PLC0415 - loads no server for --help

    try:
        serve(
            port=arguments.port,
            host=arguments.host,
            provider=arguments.provider,
            strict=arguments.strict,
            script_file=Path(arguments.script) if arguments.script else None,
            announce=lambda address: print_status(f"Serving at {address}. Stop with Ctrl-C."),
        )
    except ScriptError as error:
        raise UsageError(
            f"The script cannot be played: {error}.",
            code="bad_script",
            path="--script",
            hint="docs/emulators.md shows what a script holds.",
        ) from error
    return Exit.OK


def exports(url: str) -> list[str]:
    """Lines for a shell that lead the SDKs of all emulated providers to an address, each by its own variables."""
    from urllib.parse import urlsplit  # noqa: PLC0415

    from segue.emulators.provider_paths import MODULES  # noqa: PLC0415
    from segue.providers.hosts.addresses import find_address  # noqa: PLC0415

    lines = []
    for name in MODULES:
        address = find_address(name)
        if address is None:
            continue
        path = urlsplit(address.base_url).path
        needed = address.base_path + "".join(address.headers.values())
        if address.needs_key:
            lines.append(f"export {address.key_env[0]}=any")
        lines += [
            f"export {variables[0]}=any"
            for place, variables in address.places.items()
            if f"{{{place}}}" in needed and place not in address.usual_places
        ]
        # Of the other paths the SDKs add the version themselves.
        lines.append(f"export {address.base_url_env[0]}={url}/{name}{path if path == '/v1' else ''}")
    return lines

"""`segue health`: checks whether providers answer, all at the same time."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.lists import print_json
from segue.cli.display.terminal import Colours, print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse

    from segue.providers.capabilities import Health
    from segue.providers.registry import KnownProviders

DESCRIPTION = (
    "Checks whether providers answer: those named, or all that are configured and local servers that run."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "providers",
        metavar="PROVIDER",
        nargs="*",
        help="default: all configured providers, and local servers",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from segue.config.resources import configured_providers, local_provider_names, open_providers  # noqa: PLC0415

    config = read_settings(arguments.sets).config
    providers = open_providers(config)
    wanted = arguments.providers or configured_providers(config, providers)
    perhaps = [] if arguments.providers else [name for name in local_provider_names() if name not in wanted]
    found = asyncio.run(_ask([*wanted, *perhaps], providers))
    # A local server that is neither configured nor running is not worth a line.
    found = [health for health in found if health.provider not in perhaps or health.status == "healthy"]
    if arguments.json:
        print_json(found)
    else:
        _write(found)
    if not found:
        print_status(
            "No provider is configured, and no local server runs. Store a key: segue keys set PROVIDER"
        )
        return Exit.NO_KEY
    return Exit.OK if all(health.status == "healthy" for health in found) else Exit.FINDINGS


async def _ask(names: list[str], providers: KnownProviders) -> list[Health]:
    from segue.config.resources import require_provider  # noqa: PLC0415
    from segue.providers.health import health_of_settings  # noqa: PLC0415

    async def ask(name: str) -> Health | None:
        try:
            check = require_provider(name, providers).capabilities.health
        except UsageError as error:
            if name not in providers.list():
                raise
            return health_of_settings(name, error)
        return None if check is None else await check()

    return [health for health in await asyncio.gather(*map(ask, names)) if health is not None]


def _write(found: list[Health]) -> None:
    paint = Colours(sys.stdout)
    width = max((len(health.provider) for health in found), default=0)
    for health in found:
        well = health.status == "healthy"
        latency = "" if health.latency is None else f"{health.latency * 1000:6.0f} ms"
        sys.stdout.write(
            f"{health.provider:<{width}}  {paint('green' if well else 'red', health.status.ljust(9))}  {latency}".rstrip()
            + "\n"
        )
        for line in (health.error, health.advice):
            if line and not well:
                sys.stdout.write(f"{' ' * width}  {sanitised(line)}\n")

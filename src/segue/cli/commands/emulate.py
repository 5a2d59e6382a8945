"""`segue emulate`: the strict stand-ins of the provider APIs, on a port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse

DESCRIPTION = (
    "Serves strict stand-ins of the provider APIs until interrupted. They refuse what the real ones refuse."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="127.0.0.1 is the default")
    parser.add_argument("--port", type=int, default=8900, help="8900 is the default; 0 takes a free one")
    parser.add_argument(
        "--provider", default="", help="serve this one at the root too, not only under its name"
    )
    parser.add_argument("--strict", action="store_true", help="also enforce rules that are known less surely")
    parser.add_argument("--script", metavar="FILE", help="what the models say and which faults occur")


def run(arguments: argparse.Namespace) -> int:
    try:
        import uvicorn  # noqa: F401, PLC0415 - an extra; say so before anything is opened
    except ImportError as error:
        raise UsageError(
            "The emulators need uvicorn, which is not installed.",
            code="extra_missing",
            hint="pip install 'segue-llm[emulators]'",
        ) from error
    from segue.emulators.server import run as serve  # noqa: PLC0415

    serve(
        port=arguments.port,
        host=arguments.host,
        provider=arguments.provider,
        strict=arguments.strict,
        script_file=Path(arguments.script) if arguments.script else None,
        announce=lambda address: print_status(f"Serving at {address}. Stop with Ctrl-C."),
    )
    return Exit.OK

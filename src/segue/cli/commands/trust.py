"""`segue trust`: lets the files of a project name programs and addresses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.config.paths import PROJECT_FILES
from segue.config.trust import MCP_FILE, files_to_trust, grant, is_trusted, revoke
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Lets the files of a project (segue.toml, .segue/config.toml, .mcp.json) name programs to run, tools, and
addresses that keys are sent to. Holds until one of them changes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help="the project; here by default"
    )
    parser.add_argument("--revoke", action="store_true", help="take the trust back")
    parser.add_argument("--list", action="store_true", help="tell which files are trusted now")


def run(arguments: argparse.Namespace) -> int:
    files = files_to_trust(Path(arguments.directory))
    if arguments.list:
        for file in files:
            print(f"{file}  {'trusted' if is_trusted(file) else 'not trusted'}")  # noqa: T201 - the result
        return Exit.OK
    if not files:
        raise UsageError(
            f"{Path(arguments.directory).resolve()} has nothing to trust.",
            code="nothing_to_trust",
            hint=f"Looked for {', '.join((*PROJECT_FILES, MCP_FILE))}, up to the root of the git work tree.",
        )
    (revoke if arguments.revoke else grant)(files)
    for file in files:
        print_status(f"{'No longer trusted' if arguments.revoke else 'Trusted as it is now'}: {file}")
    return Exit.OK

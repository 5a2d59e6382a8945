"""`segue trust`: trusts the config files of a project."""

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

DESCRIPTION = """Trusts the config files of a project (segue.toml, .segue/config.toml, .mcp.json, templates and agents in .segue):
they may then start programs, add tools, and set addresses that keys are sent to. Ends when one of the files changes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help="the project; default: this directory"
    )
    parser.add_argument("--revoke", action="store_true", help="no longer trust these files")
    parser.add_argument("--list", action="store_true", help="list the files and whether they are trusted")


def run(arguments: argparse.Namespace) -> int:
    files = files_to_trust(Path(arguments.directory))
    if arguments.list:
        for file in files:
            print(f"{file}  {'trusted' if is_trusted(file) else 'not trusted'}")  # noqa: T201 - the result
        return Exit.OK
    if not files:
        raise UsageError(
            f"{Path(arguments.directory).resolve()} has no config files to trust.",
            code="nothing_to_trust",
            hint=f"Looked for {', '.join((*PROJECT_FILES, MCP_FILE))}, up to the root of the git work tree.",
        )
    (revoke if arguments.revoke else grant)(files)
    for file in files:
        print_status(f"{'No longer trusted' if arguments.revoke else 'Trusted until it changes'}: {file}")
    return Exit.OK

"""Which project files may do what a stranger's file must not: name programs to run and places to send keys to.

Trust is given to a file as it is: when it changes, it has to be given again. `segue trust` gives it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.cli.config.places import PROJECT_FILES, project_directories, trust_file
from segue.cli.exits import Exit
from segue.cli.private_files import write_private
from segue.cli.terminal import say
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse

MCP_FILE = ".mcp.json"

DESCRIPTION = """Lets the files of a project (segue.toml, .segue/config.toml, .mcp.json) name programs to run, tools, and
addresses that keys are sent to. Holds until one of them changes."""


def is_trusted(file: Path) -> bool:
    return _read().get(str(file.resolve())) == _digest(file)


def grant(files: list[Path]) -> None:
    _write({**_read(), **{str(file.resolve()): _digest(file) for file in files}})


def revoke(files: list[Path]) -> None:
    gone = {str(file.resolve()) for file in files}
    _write({name: digest for name, digest in _read().items() if name not in gone})


def files_to_trust(start: Path) -> list[Path]:
    """The files of this project that trust is about, nearest first."""
    return [
        directory / name
        for directory in project_directories(start)
        for name in (*PROJECT_FILES, MCP_FILE)
        if (directory / name).is_file()
    ]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read() -> dict[str, str]:
    try:
        told: Any = json.loads(trust_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    files = told.get("files") if isinstance(told, dict) else None
    return {str(name): str(digest) for name, digest in files.items()} if isinstance(files, dict) else {}


def _write(files: dict[str, str]) -> None:
    write_private(trust_file(), json.dumps({"files": files}, indent=2, sort_keys=True) + "\n")


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
        say(f"{'No longer trusted' if arguments.revoke else 'Trusted as it is now'}: {file}")
    return Exit.OK

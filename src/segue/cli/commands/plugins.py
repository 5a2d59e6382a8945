"""`segue plugins`: lists what other installed packages add, and what is wrong with it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse

    from segue.plugins import Contribution

DESCRIPTION = """Lists plugins: packages that add providers, tools, templates or commands. Each is loaded to see whether it works."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    from segue.plugins import contributions  # noqa: PLC0415

    rows = [
        {**one._asdict(), "problem": problem_of(one)}
        for one in sorted(contributions(), key=lambda one: (one.package, one.kind, one.name))
    ]
    if arguments.json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False, indent=2) + "\n")
        return Exit.OK
    before = ""
    for row in rows:
        package = f"{row['package']} {row['version']}"
        if package != before:
            sys.stdout.write(sanitised(package) + "\n")
        before = package
        problem = f"  not used: {row['problem']}" if row["problem"] else ""
        sys.stdout.write(sanitised(f"  {row['kind']:<9} {row['name']}{problem}") + "\n")
    if not rows:
        print_status("No installed package adds anything. How to write a plugin: docs/plugins.md")
    return Exit.OK


def problem_of(one: Contribution) -> str:
    """Why it is not used; "" if it is."""
    from segue.cli.plugin_checks import check  # noqa: PLC0415 - loads what each kind needs
    from segue.errors import SegueError  # noqa: PLC0415

    try:
        check(one)
    except SegueError as error:
        return error.message
    return ""

"""`segue plugins`: lists what other installed packages add, and what is wrong with it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from segue.cli.display.lists import print_json
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import SegueError, UsageError
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse

    from segue.plugins import Contribution

DESCRIPTION = """Lists plugins: packages that add providers, tools, templates, commands or session formats. Each is loaded to see
whether it works."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    from segue.plugins import contributions  # noqa: PLC0415

    rows = [
        {**one._asdict(), "problem": problem_of(one)}
        for one in sorted(contributions(), key=lambda one: (one.package, one.kind, one.name))
    ]
    if arguments.json:
        print_json(rows)
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
    try:
        _check(one)
    except SegueError as error:
        return error.message
    return ""


def _check(one: Contribution) -> None:
    """Use it as its kind is used. Raises UsageError where it cannot be, or stands in place of something of ours."""
    match one.kind:
        case "provider":
            from segue.providers.config import IN_PROCESS  # noqa: PLC0415
            from segue.providers.hosts.addresses import addresses  # noqa: PLC0415 - each kind needs something else
            from segue.providers.registry import plugin_provider  # noqa: PLC0415

            _refuse_ours(one, {*addresses().providers, *IN_PROCESS})
            plugin_provider(one)
        case "tool":
            from segue.cli.tool_loader import plugin_tools, reserved_names  # noqa: PLC0415

            _refuse_ours(one, reserved_names())
            plugin_tools(one)
        case "template":
            from segue.config.templates import plugin_template  # noqa: PLC0415

            plugin_template(one)
        case "session format":
            from segue.interop.added_formats import plugin_format  # noqa: PLC0415
            from segue.interop.session_formats import NAMES  # noqa: PLC0415

            _refuse_ours(one, {*NAMES, "segue"})
            plugin_format(one)
        case _:
            from segue.cli.command_table import COMMANDS, plugin_command  # noqa: PLC0415

            _refuse_ours(one, set(COMMANDS))
            plugin_command(one)


def _refuse_ours(one: Contribution, taken: set[str]) -> None:
    if one.name in taken:
        raise UsageError(f'segue has a {one.kind} "{one.name}" of its own.', code="plugin_name_taken")

"""`segue templates`: lists the templates that -t takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.name_list import name_lines
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Lists templates: prompts of your own for -t NAME, and for /NAME in a chat. One TOML file each: docs/cli.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", action="store_true", help="show the folder for your own, and exit")


def run(arguments: argparse.Namespace) -> int:
    from segue.config.templates import find_template, template_names, user_templates  # noqa: PLC0415

    if arguments.path:
        sys.stdout.write(f"{user_templates()}\n")
        return Exit.OK
    names = template_names(Path.cwd())
    for line in name_lines(names, lambda name: find_template(name, Path.cwd()).description):
        sys.stdout.write(f"{line}\n")
    if not names:
        print_status(f"There are no templates. Yours are files in {user_templates()}.")
    return Exit.OK

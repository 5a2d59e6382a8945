"""`segue templates`: lists the templates that -t takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.lists import name_lines, print_names
from segue.config.paths import TEMPLATES

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Lists templates: prompts of your own for -t NAME, and for /NAME in a chat. One TOML file each: docs/cli.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", action="store_true", help="show the folder for your own, and exit")


def run(arguments: argparse.Namespace) -> int:
    from segue.config.templates import find_template, template_names  # noqa: PLC0415

    def lines() -> list[str]:
        here = Path.cwd()
        return name_lines(template_names(here), lambda name: find_template(name, here).description)

    return print_names(TEMPLATES, lines, only_folder=arguments.path)

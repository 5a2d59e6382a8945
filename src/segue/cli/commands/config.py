"""`segue config`: the config files, the settings with their origins, a change of one, and a check of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.lists import print_json
from segue.cli.display.terminal import Colours, print_status
from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segue.config.toml_lines import SettingPath

DESCRIPTION = """Settings come from the user's file, the project's file, SEGUE_… variables and --set. The last one wins."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("path", help="show which files are read")
    show = actions.add_parser("show", help="show the settings that were changed, with secrets masked")
    show.add_argument(
        "--origin", action="store_true", help="also show defaults, and where each setting comes from"
    )
    show.add_argument("--json", action="store_true", help="print JSON")
    change = actions.add_parser("set", help="write a setting into your file")
    change.add_argument("key", metavar="KEY", help="for example ui.markdown")
    change.add_argument("value", metavar="VALUE", help="as TOML writes it; anything else is text")
    check = actions.add_parser("check", help="list all errors in the settings (exit 52)")
    for action in (show, check):
        add_set(action)


def run(arguments: argparse.Namespace) -> int:
    act = {"path": _path, "show": _show, "set": _set, "check": _check}
    return act[arguments.action](arguments)


def _path(_arguments: argparse.Namespace) -> int:
    from segue.config.paths import PROJECT_FILES, project_directories, project_file, user_file  # noqa: PLC0415

    user, project = user_file(), project_file(project_directories(Path.cwd()))
    none = f"none ({' or '.join(PROJECT_FILES)}, up to the root of the git work tree)"
    missing = "" if user.is_file() else "  (does not exist yet)"
    sys.stdout.write(f"user:    {user}{missing}\nproject: {project or none}\n")
    return Exit.OK


def _show(arguments: argparse.Namespace) -> int:
    from msgspec import to_builtins  # noqa: PLC0415

    from segue.config.file_edit import key_of, toml_value  # noqa: PLC0415
    from segue.text.redaction import redact_settings  # noqa: PLC0415

    settings = read_settings(arguments.sets)
    shown = {key: redact_settings(key, value) for key, value in to_builtins(settings.config).items()}
    if arguments.json:
        print_json(shown)
        return Exit.OK
    paint = Colours(sys.stdout)
    for path, value in _leaves((), shown):
        origin = settings.origin(path)
        if arguments.origin:
            sys.stdout.write(f"{key_of(path)} = {toml_value(value)}  {paint('dim', f'# {origin}')}\n")
        elif origin != "default":
            sys.stdout.write(f"{key_of(path)} = {toml_value(value)}\n")
    return Exit.OK


def _set(arguments: argparse.Namespace) -> int:
    from segue.config.file_edit import write_setting  # noqa: PLC0415
    from segue.config.layers import parse_value, split_key  # noqa: PLC0415

    file = write_setting(split_key(arguments.key), parse_value(arguments.value))
    print_status(f"{arguments.key} is set in {file}.")
    return Exit.OK


def _check(arguments: argparse.Namespace) -> int:
    from segue.config.layers import config_error  # noqa: PLC0415
    from segue.config.model_names import reference_faults  # noqa: PLC0415

    settings = read_settings(arguments.sets)
    if faults := reference_faults(settings):
        raise config_error(faults)
    read = ", ".join(layer.name for layer in settings.layers) or "the defaults"
    print_status(f"No errors in {read}.")
    return Exit.OK


def _leaves(path: SettingPath, table: dict[str, Any]) -> Iterator[tuple[SettingPath, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves((*path, key), value)
        elif value is not None:
            yield (*path, key), value

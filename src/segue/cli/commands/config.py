"""`segue config`: the config files, the settings with their origins, and a check of them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

from segue.cli.command_table import add_set
from segue.cli.display.terminal import Colours, print_status
from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segue.config.layers import Path, Settings

_BARE = re.compile("[A-Za-z0-9_-]+")
"""A key that needs no quotes."""

DESCRIPTION = """Settings come from the user's file, the project's file, SEGUE_… variables and --set. The last one wins."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("path", help="show which files are read")
    show = actions.add_parser("show", help="show the settings that were changed, with secrets masked")
    show.add_argument(
        "--origin", action="store_true", help="also show defaults, and where each setting comes from"
    )
    show.add_argument("--json", action="store_true", help="print JSON")
    check = actions.add_parser("check", help="list all errors in the settings (exit 52)")
    for action in (show, check):
        add_set(action)


def run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "path":
            return _path()
        case "show":
            return _show(arguments)
        case _:
            return _check(arguments)


def _path() -> int:
    from segue.config.paths import PROJECT_FILES, project_file, user_file  # noqa: PLC0415

    user, project = user_file(), project_file(File.cwd())
    shown = (
        f"{project}"
        if project
        else f"none ({' or '.join(PROJECT_FILES)}, up to the root of the git work tree)"
    )
    missing = "" if user.is_file() else "  (does not exist yet)"
    sys.stdout.write(f"user:    {user}{missing}\nproject: {shown}\n")
    return Exit.OK


def _show(arguments: argparse.Namespace) -> int:
    from segue.cli.settings import read_settings  # noqa: PLC0415
    from segue.redaction import redact_settings  # noqa: PLC0415

    settings = read_settings(arguments.sets)
    shown = {key: redact_settings(key, value) for key, value in _table(settings).items()}
    if arguments.json:
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
        return Exit.OK
    paint = Colours(sys.stdout)
    for path, value in _leaves((), shown):
        origin = settings.origin(path)
        if arguments.origin:
            sys.stdout.write(f"{_key(path)} = {toml_value(value)}  {paint('dim', f'# {origin}')}\n")
        elif origin != "default":
            sys.stdout.write(f"{_key(path)} = {toml_value(value)}\n")
    return Exit.OK


def _check(arguments: argparse.Namespace) -> int:
    from segue.cli.settings import read_settings  # noqa: PLC0415
    from segue.config.layers import config_error  # noqa: PLC0415
    from segue.config.model_names import reference_faults  # noqa: PLC0415

    settings = read_settings(arguments.sets)
    if faults := reference_faults(settings):
        raise config_error(faults)
    read = ", ".join(layer.name for layer in settings.layers) or "the defaults"
    print_status(f"No errors in {read}.")
    return Exit.OK


def _table(settings: Settings) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415

    table: dict[str, Any] = msgspec.to_builtins(settings.config)
    return table


def _leaves(path: Path, table: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves((*path, key), value)
        elif value is not None:
            yield (*path, key), value


def _key(path: Path) -> str:
    return ".".join(word if _BARE.fullmatch(word) else _text(word) for word in path)


def _text(text: str) -> str:
    # Strings as in JSON, except for one control character that JSON does not escape.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case list():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case dict():
            return f"{{{', '.join(f'{_key((key,))} = {toml_value(item)}' for key, item in value.items())}}}"
        case _:
            return _text(value) if isinstance(value, str) else json.dumps(value)

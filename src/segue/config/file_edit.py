"""One setting written into the user's file. Comments and everything else in the file stay as they are."""

from __future__ import annotations

import json
import re
import tomllib
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from segue.config.layers import load_settings, put
from segue.config.paths import user_file
from segue.config.toml_lines import lines_of, tables_of
from segue.errors import UsageError
from segue.system.private_files import write_private

if TYPE_CHECKING:
    from segue.config.toml_lines import SettingPath

_BARE: Final = re.compile("[A-Za-z0-9_-]+")
"""A key that needs no quotes."""


def write_setting(path: SettingPath, value: Any) -> str:
    """Set it in the user's file, if the settings are valid with it; returns the name of the file."""
    file = user_file()
    before = file.read_text("utf-8") if file.is_file() else ""
    after = with_setting(before, path, value)
    # Checked as a flag first: a file that cannot be used is never written.
    load_settings(sets=[f"{key_of(path)}={toml_value(value)}"])
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(file, after)
    return str(file)


def with_setting(text: str, path: SettingPath, value: Any) -> str:
    """The text of a file with one setting more or changed. Raises UsageError where it must be edited by hand."""
    expected = deepcopy(tomllib.loads(text))
    put(expected, path, value)
    written = "\n".join(_edited(text.splitlines(), path, value)).strip("\n") + "\n"
    try:
        right = tomllib.loads(written) == expected
    except tomllib.TOMLDecodeError:
        right = False
    if not right:
        raise UsageError(
            f"{key_of(path)} has a form in the file that cannot be changed here.",
            code="config",
            hint="Edit the file: segue config path",
        )
    return written


def _edited(lines: list[str], path: SettingPath, value: Any) -> list[str]:
    text = "\n".join(lines)
    assignment = f"{key_of(path[-1:])} = {toml_value(value)}"
    if (known := lines_of(text).get(path)) is not None:
        start = known - 1
        return [*lines[:start], assignment, *lines[_end_of_value(lines, start) :]]
    tables = tables_of(text)
    if path[:-1] in tables:
        return _inserted(lines, tables[path[:-1]], assignment)
    return [*lines, "", f"[{key_of(path[:-1])}]", assignment]


def _end_of_value(lines: list[str], start: int) -> int:
    """The line behind a value that may take several."""
    for end in range(start + 1, len(lines) + 1):
        try:
            tomllib.loads("\n".join(lines[start:end]))
        except tomllib.TOMLDecodeError:
            continue
        return end
    return start + 1


def _inserted(lines: list[str], span: tuple[int, int], assignment: str) -> list[str]:
    start, end = span
    while end > start and not lines[end - 1].strip():
        end -= 1
    return [*lines[:end], assignment, *lines[end:]]


def key_of(path: SettingPath) -> str:
    return ".".join(word if _BARE.fullmatch(word) else _text(word) for word in path)


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case list():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case dict():
            return f"{{{', '.join(f'{key_of((key,))} = {toml_value(item)}' for key, item in value.items())}}}"
        case _:
            return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    # Strings as in JSON, except for one control character that JSON does not escape.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

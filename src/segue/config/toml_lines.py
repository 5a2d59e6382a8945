"""On which line of a TOML file a key stands. `tomllib` does not know, and errors should name it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

SettingPath: TypeAlias = tuple[str, ...]
"""The words of `profiles.fast.members`."""

_HEADER: Final = re.compile(r"^\s*\[{1,2}\s*(?P<name>[^\[\]]+?)\s*\]{1,2}\s*(#.*)?$")
_KEY: Final = re.compile(
    r"""^\s*(?P<name>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_WORD: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


@lru_cache(maxsize=4)
def lines_of(text: str) -> Mapping[SettingPath, int]:
    """SettingPath of each key and table → its line, counted from 1. Keys inside inline tables have the line of the table."""
    found: dict[SettingPath, int] = {}
    table: SettingPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _words(header["name"])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault(table + _words(key["name"]), number)
    return found


def tables_of(text: str) -> dict[SettingPath, tuple[int, int]]:
    """Each table that has a header, and the root → the lines of its keys, counted from 0, the end excluded."""
    headers = [
        (number, _words(header["name"]))
        for number, line in enumerate(text.splitlines())
        if (header := _HEADER.match(line)) and not line.lstrip().startswith("[[")
    ]
    ends = [*(number for number, _ in headers), len(text.splitlines())]
    found: dict[SettingPath, tuple[int, int]] = {(): (0, ends[0])}
    for (number, table), end in zip(headers, ends[1:], strict=True):
        found.setdefault(table, (number + 1, end))
    return found


def line_of(path: SettingPath, lines: Mapping[SettingPath, int]) -> int | None:
    """The line of a key, or of the nearest table around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _words(name: str) -> SettingPath:
    return tuple(word.strip("\"'") for word in _WORD.findall(name))

"""The patterns of .gitignore files, as far as it takes to leave out what nobody wants to search."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias, final

from msgspec import Struct

ALWAYS: Final = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules"})


@final
class Ignored(Struct, frozen=True):
    """One line: a pattern that holds below the directory of its file."""

    below: str
    """The directory, with a slash at its end; empty for the root."""
    matching: re.Pattern[str]
    directories_only: bool
    again: bool
    """It takes back what an earlier line said."""


Rules: TypeAlias = tuple[Ignored, ...]


def read_rules(text: str, directory: str) -> Rules:
    """The lines of the .gitignore file of a directory, named relative to the root."""
    below = f"{directory}/" if directory not in ("", ".") else ""
    rules: list[Ignored] = []
    for written in text.splitlines():
        line = written.rstrip()
        if not line or line.startswith("#"):
            continue
        again = line.startswith("!")
        pattern = line.removeprefix("!").removeprefix("\\")
        rules.append(Ignored(below, _compiled(pattern.rstrip("/")), pattern.endswith("/"), again))
    return tuple(rules)


def is_ignored(path: str, rules: Rules, *, is_directory: bool) -> bool:
    """Whether the last line that speaks of a path leaves it out."""
    if path.rpartition("/")[2] in ALWAYS:
        return True
    for rule in reversed(rules):
        if rule.directories_only and not is_directory:
            continue
        if path.startswith(rule.below) and rule.matching.fullmatch(path[len(rule.below) :]):
            return not rule.again
    return False


@lru_cache(4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    # A slash before the end ties a pattern to its directory; else it holds at any depth.
    tied = "/" in pattern
    return re.compile(("" if tied else "(?:.*/)?") + glob_expression(pattern.lstrip("/")), re.DOTALL)


def glob_expression(pattern: str) -> str:
    """A glob as a regular expression: * and ? stay within a name, ** crosses them."""
    made: list[str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if pattern.startswith("**/", at):
            made.append("(?:[^/]+/)*")
            at += 3
            continue
        if pattern.startswith("**", at):
            made.append(".*")
            at += 2
            continue
        end = pattern.find("]", at + 2) if letter == "[" else -1
        if end > 0:
            inside = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            made.append(f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]")
            at = end + 1
            continue
        made.append({"*": "[^/]*", "?": "[^/]"}.get(letter) or re.escape(letter))
        at += 1
    expression = "".join(made)
    try:
        re.compile(expression)
    except re.error:
        return re.escape(pattern)
    return expression

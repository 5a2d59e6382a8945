"""Which entries of a directory git ignores, by the patterns of all .gitignore files above them."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from typing import Final, TypeAlias, final

from msgspec import Struct

ALWAYS: Final = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules"})
_OTHER_CHARACTERS: Final = re.compile(r"(?<!\\)\[\^(?!/)")
_DIRECTORY: Final = "ps_d"
"""Name of the group in which an expression of pathspec matches the slash behind a directory."""


@final
class IgnoreFile(Struct, frozen=True):
    """One .gitignore file, whose patterns hold below its directory."""

    below: str
    """The directory, with a slash at its end; empty for the root."""
    patterns: tuple[tuple[re.Pattern[str], bool], ...]
    """Each with whether it ignores or takes back; the last line first, because it wins."""


IgnoreFiles: TypeAlias = tuple[IgnoreFile, ...]


def read_gitignore(text: str, directory: str) -> IgnoreFiles:
    """The .gitignore file of a directory, named relative to the root; lines that git cannot read are skipped."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - many have no such file

    patterns: list[tuple[re.Pattern[str], bool]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the re module, about sets such as [[ab]
        for line in text.removeprefix("\ufeff").split("\n"):
            with suppress(ValueError, re.error):
                pattern = GitIgnoreSpecPattern(line.removesuffix("\r"))
                # A slash alone means nothing to git, and everything to pathspec.
                if (
                    pattern.regex is not None
                    and pattern.include is not None
                    and line.strip() not in ("/", "!/")
                ):
                    # A set of characters never holds the slash.
                    expression = re.compile(_OTHER_CHARACTERS.sub("[^/", pattern.regex.pattern))
                    patterns.append((expression, pattern.include))
    below = f"{directory}/" if directory not in ("", ".") else ""
    return (IgnoreFile(below, tuple(reversed(patterns))),)


def is_ignored(path: str, files: IgnoreFiles, *, is_directory: bool) -> bool:
    """Whether git ignores an entry of a directory that it does not ignore."""
    if path.rpartition("/")[2] in ALWAYS:
        return True
    for file in reversed(files):
        if path.startswith(file.below):
            inside = path[len(file.below) :]
            for expression, ignores in file.patterns:
                if _matches(expression, inside, is_directory=is_directory):
                    return ignores
    return False


def _matches(expression: re.Pattern[str], path: str, *, is_directory: bool) -> bool:
    """Whether a pattern means this very entry: pathspec also matches all that is below a directory it means."""
    if _DIRECTORY not in expression.groupindex:
        return expression.search(path) is not None
    if any(found.end(_DIRECTORY) == -1 for found in expression.finditer(path)):
        return True
    whole = f"{path}/"
    return is_directory and any(found.end(_DIRECTORY) == len(whole) for found in expression.finditer(whole))

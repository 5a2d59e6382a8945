"""A walk over the files of a workspace, in the order of their names, without what git ignores."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias, final

from msgspec import Struct

from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.tools.builtin.workspace import DirectoryEntry, Steps, Workspace


ALWAYS: Final = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules"})
_OTHER_CHARACTERS: Final = re.compile(r"(?<!\\)\[\^(?!/)")
_DIRECTORY: Final = "ps_d"
"""Name of the group in which an expression of pathspec matches the slash behind a directory."""
MAX_DEPTH: Final = 50
_MAX_BYTES: Final = 200_000


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


def walk(
    workspace: Workspace, start: Steps, *, depth: int = MAX_DEPTH
) -> Iterator[tuple[Steps, DirectoryEntry]]:
    """Every entry below a directory that git would not ignore. Links are named, never followed."""
    files: IgnoreFiles = ()
    for above in range(len(start)):
        files = (*files, *_gitignore(workspace, start[:above]))
    yield from _below(workspace, start, files, depth)


def _below(
    workspace: Workspace, steps: Steps, files: IgnoreFiles, depth: int
) -> Iterator[tuple[Steps, DirectoryEntry]]:
    with workspace.directory(steps) as descriptor:
        entries = workspace.entries(descriptor)
    if any(entry.name == ".gitignore" for entry in entries):
        files = (*files, *_gitignore(workspace, steps))
    for entry in entries:
        inner = (*steps, entry.name)
        if is_ignored("/".join(inner), files, is_directory=entry.kind == "directory"):
            continue
        yield inner, entry
        if entry.kind == "directory" and depth > 1:
            try:
                yield from _below(workspace, inner, files, depth - 1)
            except UsageError:
                continue  # it went away, or may not be read: the rest is still worth seeing


def _gitignore(workspace: Workspace, steps: Steps) -> IgnoreFiles:
    try:
        with workspace.reading((*steps, ".gitignore")) as file:
            return read_gitignore(file.read(_MAX_BYTES).decode(errors="replace"), "/".join(steps))
    except UsageError:
        return ()

"""A walk over the files of a workspace, in the order of their names, without what git ignores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.errors import UsageError
from segue.tools.builtin.gitignore import IgnoreFiles, is_ignored, read_gitignore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.tools.builtin.workspace import DirectoryEntry, Steps, Workspace

MAX_DEPTH: Final = 50
_MAX_BYTES: Final = 200_000


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

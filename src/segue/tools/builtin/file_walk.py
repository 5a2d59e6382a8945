"""A walk over the files of a workspace, in the order of their names, without what git ignores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.errors import UsageError
from segue.tools.builtin.gitignore import Rules, is_ignored, read_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.tools.builtin.workspace import Entry, Steps, Workspace

MAX_DEPTH: Final = 50
_MAX_RULES: Final = 200_000


def walk(workspace: Workspace, start: Steps, *, depth: int = MAX_DEPTH) -> Iterator[tuple[Steps, Entry]]:
    """Every entry below a directory that git would not ignore. Links are told, never followed."""
    rules: Rules = ()
    for above in range(len(start)):
        rules = (*rules, *_rules(workspace, start[:above]))
    yield from _below(workspace, start, rules, depth)


def _below(workspace: Workspace, steps: Steps, rules: Rules, depth: int) -> Iterator[tuple[Steps, Entry]]:
    with workspace.directory(steps) as descriptor:
        entries = workspace.entries(descriptor)
    if any(entry.name == ".gitignore" for entry in entries):
        rules = (*rules, *_rules(workspace, steps))
    for entry in entries:
        inner = (*steps, entry.name)
        if is_ignored("/".join(inner), rules, is_directory=entry.kind == "directory"):
            continue
        yield inner, entry
        if entry.kind == "directory" and depth > 1:
            try:
                yield from _below(workspace, inner, rules, depth - 1)
            except UsageError:
                continue  # it went away, or may not be read: the rest is still worth seeing


def _rules(workspace: Workspace, steps: Steps) -> Rules:
    try:
        with workspace.reading((*steps, ".gitignore")) as file:
            return read_rules(file.read(_MAX_RULES).decode(errors="replace"), "/".join(steps))
    except UsageError:
        return ()

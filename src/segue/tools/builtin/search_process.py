"""The search itself, as it runs in a process of its own.

A regular expression from a model may take for ever, and Python cannot interrupt one; a process can be ended. The
request comes as JSON on the standard input, the matches go line by line to the standard output.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct

from segue.conversation.json_safe import encodable
from segue.errors import UsageError
from segue.tools.builtin.file_walk import walk
from segue.tools.builtin.text_files import read_text
from segue.tools.builtin.workspace import Steps, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_BYTES: Final = 5_000_000
MAX_WIDTH: Final = 400


@final
class SearchRequest(Struct, frozen=True):
    """What to search for, and where."""

    root: str
    start: str
    pattern: str
    files: str
    ignore_case: bool
    limit: int


def find(request: SearchRequest) -> Iterator[str]:
    """The lines that match, as path:line: text; the last one notes if there are more."""
    expression = re.compile(request.pattern, re.IGNORECASE if request.ignore_case else 0)
    named = _name_filter(request.files)
    workspace = Workspace(request.root)
    found = 0
    for steps in _files(workspace, workspace.steps(request.start)):
        path = "/".join(steps)
        if not named(path):
            continue
        for number, line in _lines(workspace, steps):
            if expression.search(line):
                if found == request.limit:
                    yield f"(there are more than these {found}: search for something narrower)"
                    return
                found += 1
                yield f"{path}:{number}: {line[:MAX_WIDTH]}{'…' if len(line) > MAX_WIDTH else ''}"


def _name_filter(glob: str) -> Callable[[str], bool]:
    """Whether a path matches a glob, read like a line of a .gitignore file."""
    if not glob:
        return lambda _: True
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - most searches name no files

    try:
        return GitIgnoreSpec.from_lines([glob]).match_file
    except ValueError as error:
        raise UsageError(f'"{glob}" is no glob: {error}.', code="bad_pattern") from error


def _files(workspace: Workspace, start: Steps) -> Iterator[Steps]:
    if start:
        with workspace.directory(start[:-1]) as parent:
            kinds = {entry.name: entry.kind for entry in workspace.entries(parent)}
        if kinds.get(start[-1]) == "file":
            yield start
            return
    yield from (
        steps for steps, entry in walk(workspace, start) if entry.kind == "file" and entry.size <= MAX_BYTES
    )


def _lines(workspace: Workspace, steps: Steps) -> Iterator[tuple[int, str]]:
    try:
        with workspace.reading(steps) as file:
            found = read_text(file.read(MAX_BYTES))
    except (UsageError, OSError):
        return
    if found is not None:
        yield from (
            (number, line.removesuffix("\r")) for number, line in enumerate(found.text.split("\n"), 1)
        )


def main() -> None:
    """Serve the request on the standard input; what is wrong with it goes to the output, with exit code 2."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=SearchRequest)
    out = sys.stdout.buffer
    try:
        for line in find(request):
            out.write(f"{encodable(line)}\n".encode())
            out.flush()
    except re.error as error:
        out.write(f"The pattern is no regular expression: {error}.".encode())
        sys.exit(2)
    except (UsageError, RecursionError, OverflowError) as error:
        out.write(encodable(str(error)).encode())
        sys.exit(2)

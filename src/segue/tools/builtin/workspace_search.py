"""A search through the files of a workspace, as it runs in a process of its own; the walk over them, and files as text.

A regular expression from a model may take for ever, and Python cannot interrupt one; a process can be ended. The
request comes as JSON on the standard input, the matches go line by line to the standard output. Files are walked in
the order of their names, without what git ignores. Of a text file its encoding and its line ends are known, so that
both are left as they were.
"""

from __future__ import annotations

import codecs
import re
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.conversation.json_safe import encodable
from segue.errors import UsageError
from segue.tools.builtin.workspace import Steps, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segue.tools.builtin.workspace import DirectoryEntry, Steps


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@final
class FileText(Struct, frozen=True):
    """The text of a file and what it takes to write it again."""

    text: str
    mark: bytes = b""
    encoding: str = "utf-8"

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding)


def read_text(data: bytes) -> FileText | None:
    """The text in a file's bytes; None when they are no text."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    if b"\x00" in data and encoding == "utf-8":
        return None
    try:
        return FileText(data[len(mark) :].decode(encoding), mark, encoding)
    except UnicodeDecodeError:
        return None


def with_newlines(text: str) -> str:
    """Lines that end as they do on Unix, which is how models write them."""
    return text.replace("\r\n", "\n")


def with_returns(text: str) -> str:
    return with_newlines(text).replace("\n", "\r\n")


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

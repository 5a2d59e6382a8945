"""Tools that read and change the files of a workspace."""

from __future__ import annotations

import os
import sys
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from segue.conversation.json_safe import is_encodable
from segue.errors import UsageError
from segue.tools.builtin.workspace import Steps, Workspace
from segue.tools.builtin.workspace_search import FileText, read_text, with_newlines, with_returns
from segue.tools.definition import Context, Output, Tool
from segue.tools.function_tools import as_tool, tool
from segue.tools.media_types import media_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.tools.builtin.output_limit import OutputLimit

MAX_BYTES: Final = 20_000_000
MAX_LINES: Final = 2_000
FilePath = Annotated[str, Meta(min_length=1, description="Path of the file, relative to the workspace root.")]


def file_tools(workspace: Workspace, outputs: OutputLimit) -> tuple[Tool, ...]:
    """read_file, write_file and edit_file."""

    @tool(effect="read")
    def read_file(
        path: FilePath,
        context: Context,
        first_line: Annotated[int, Meta(ge=1, description="The line to begin with, counted from 1.")] = 1,
        lines: Annotated[int, Meta(ge=1, le=100_000, description="How many lines to read.")] = MAX_LINES,
    ) -> Output:
        """Read a file of the workspace: text by lines, images and PDF documents as such."""
        data, name = _read(_home(workspace, outputs, path), path)
        media = media_of(data, name.rpartition("/")[2])
        if media is not None:
            return Output(f"{name}: {media.mime}, {len(data)} bytes.", (media,))
        found = _text_of(data, name)
        return Output(outputs.fit(_portion(found, first_line, lines), context))

    @tool(effect="edit", writes=_written(workspace))
    def write_file(path: FilePath, content: str) -> str:
        """Write a file of the workspace, whole. Directories on the way are made; a file that is there is replaced."""
        steps = workspace.steps(path)
        data = FileText("").encode(_encodable(content))
        is_new = workspace.write(steps, data)
        return f"{'Made' if is_new else 'Replaced'} {workspace.name_of(steps)}, {len(data)} bytes."

    @tool(effect="edit", writes=_written(workspace))
    def edit_file(
        path: FilePath,
        old: Annotated[
            str,
            Meta(description="The text to replace, exactly as in the file, with its indentation."),
        ],
        new: Annotated[str, Meta(description="The text to put in its place.")],
        *,
        every: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False,
    ) -> str:
        """Replace a text in a file of the workspace. The text must occur exactly once, unless all are to be replaced."""
        steps = workspace.steps(path)
        data, name = _read(workspace, path)
        found = _text_of(data, name)
        changed, count = _replaced(found.text, _encodable(old), _encodable(new), every=every, name=name)
        workspace.write(steps, found.encode(changed))
        return f"Replaced {count} occurrence{'s' if count > 1 else ''} in {name}."

    return as_tool(read_file), as_tool(write_file), as_tool(edit_file)


def _home(workspace: Workspace, outputs: OutputLimit, path: str) -> Workspace:
    """Where a path is to be read: long outputs are kept outside the workspace, and may be read as well."""
    if Path(path).is_absolute() and outputs.directory.is_dir():
        kept = Workspace(outputs.directory)
        if path.startswith(f"{kept.root}/"):
            return kept
    return workspace


def _written(workspace: Workspace) -> Callable[[dict[str, Any]], tuple[str, ...]]:
    def paths(arguments: dict[str, Any]) -> tuple[str, ...]:
        try:
            steps: Steps = workspace.steps(str(arguments.get("path", "")))
        except UsageError:
            return ()
        path = str(workspace.root.joinpath(*steps))
        # Two spellings of one name must not run side by side where the disk ignores case.
        return (path.casefold() if sys.platform == "darwin" else path,)

    return paths


def _read(workspace: Workspace, path: str) -> tuple[bytes, str]:
    steps = workspace.steps(path)
    name = workspace.name_of(steps)
    with workspace.reading(steps) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > MAX_BYTES else file.read(MAX_BYTES + 1)
    if size > MAX_BYTES or len(data) > MAX_BYTES:
        raise UsageError(
            f"{name} has {size} bytes, more than can be read at once.",
            code="file_too_large",
            hint="Search it for what you need.",
        )
    return data, name


def _text_of(data: bytes, name: str) -> FileText:
    found = read_text(data)
    if found is None:
        raise UsageError(
            f"{name} is no text ({len(data)} bytes).",
            code="not_text",
            hint="Only text, images and PDF can be read.",
        )
    return found


def _portion(found: FileText, first_line: int, count: int) -> str:
    # Lines as every other program counts them: Python knows more ends of lines.
    lines = StringIO(with_newlines(found.text), newline="\n").readlines()
    if not lines:
        return "(the file is empty)"
    if first_line > len(lines):
        return f"(the file has {len(lines)} lines, none from {first_line} on)"
    last = min(first_line - 1 + count, len(lines))
    text = "".join(lines[first_line - 1 : last])
    if first_line == 1 and last == len(lines):
        return text
    more = f"; read on with first_line={last + 1}" if last < len(lines) else ""
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}(lines {first_line} to {last} of {len(lines)}{more})"


def _replaced(text: str, old: str, new: str, *, every: bool, name: str) -> tuple[str, int]:
    if not old:
        raise UsageError(
            "The text to replace is empty.", code="nothing_to_replace", hint="Use write_file for a new file."
        )
    if old == new:
        raise UsageError(
            "Both texts are the same.", code="nothing_to_replace", hint="Nothing needs to be done."
        )
    # A model sees and writes plain newlines; in a file with CRLF both texts are meant to have them too.
    if "\r\n" in text and with_returns(old) in text:
        old, new = with_returns(old), with_returns(new)
    count = text.count(old)
    if not count:
        raise UsageError(
            f"The text to replace does not occur in {name}.",
            code="text_not_found",
            hint="Read the file again and give the text exactly as it stands there, spaces included.",
        )
    if count > 1 and not every:
        places = ", ".join(str(line) for line in _lines_of(text, old)[:10])
        raise UsageError(
            f"The text to replace occurs {count} times in {name}, at lines {places}.",
            code="text_not_unique",
            hint="Give more of the text around it, or replace every occurrence.",
        )
    return text.replace(old, new), count


def _lines_of(text: str, wanted: str) -> list[int]:
    lines, at = [], text.find(wanted)
    while at >= 0:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(wanted, at + len(wanted))
    return lines


def _encodable(text: str) -> str:
    if not is_encodable(text):
        raise UsageError(
            "The text holds half of a character (a lone surrogate).",
            code="not_text",
            hint="Write it without.",
        )
    return text

"""Tools that list and search a workspace."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from segue.conversation.json_safe import is_encodable
from segue.errors import UsageError
from segue.tools.builtin.workspace_search import SearchRequest, walk
from segue.tools.definition import Context, Output, Tool
from segue.tools.function_tools import as_tool, tool

if TYPE_CHECKING:
    from segue.tools.builtin.output_limit import OutputLimit
    from segue.tools.builtin.workspace import Workspace

SEARCH_SECONDS: Final = 20.0
MAX_ENTRIES: Final = 2_000
_SEARCH: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; from segue.tools.builtin.workspace_search import main; main()"
)
Directory = Annotated[str, Meta(min_length=1, description="Relative to the workspace root.")]


def search_tools(
    workspace: Workspace, outputs: OutputLimit, seconds: float = SEARCH_SECONDS
) -> tuple[Tool, ...]:
    """list_dir and search."""

    @tool(effect="read")
    def list_dir(
        context: Context,
        path: Directory = ".",
        depth: Annotated[int, Meta(ge=1, le=10, description="How many levels of directories to list.")] = 1,
    ) -> str:
        """List a directory of the workspace, without what git ignores. Directories end in /, links in @."""
        lines: list[str] = []
        for steps, entry in walk(workspace, workspace.steps(path), depth=depth):
            if len(lines) == MAX_ENTRIES:
                lines.append(f"(and more than these {MAX_ENTRIES}: list a smaller part)")
                break
            mark = {"directory": "/", "link": "@", "file": f"  {entry.size} bytes"}.get(entry.kind, "")
            lines.append(f"{workspace.name_of(steps)}{mark}")
        return outputs.fit("\n".join(lines) or "(empty)", context)

    @tool(effect="read", timeout=seconds + 10)
    async def search(
        pattern: Annotated[
            str, Meta(min_length=1, description="A regular expression (Python), matched line by line.")
        ],
        context: Context,
        path: Annotated[str, Meta(min_length=1, description="The file or directory to search.")] = ".",
        files: Annotated[
            str, Meta(description='Only files whose path matches this glob, like "*.py" or "src/**".')
        ] = "",
        *,
        ignore_case: bool = False,
        limit: Annotated[int, Meta(ge=1, le=2_000, description="How many lines to find.")] = 200,
    ) -> Output:
        """Search the text files of the workspace, without what git ignores. Answers with path:line: text."""
        if not all(is_encodable(text) for text in (pattern, path, files)):
            raise UsageError(
                "The pattern is not valid text.", code="bad_pattern", hint="Remove lone surrogates."
            )
        workspace.steps(path)
        request = SearchRequest(str(workspace.root), path, pattern, files, ignore_case, limit)
        found = await _run_search(request, seconds)
        return Output(outputs.fit(found, context))

    return as_tool(list_dir), as_tool(search)


async def _run_search(request: SearchRequest, seconds: float) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        # Neither the working directory nor the environment decides what is imported: both may be the workspace's.
        *("-I", "-c", _SEARCH, *(entry for entry in sys.path if Path(entry).is_absolute())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    answer = bytearray()
    note = ""
    try:
        async with asyncio.timeout(seconds):
            await _send_and_read(process, request, answer)
            await process.wait()
    except TimeoutError:
        note = f"(the search was ended after {seconds:g} seconds and is not complete)"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    found = answer.decode(errors="replace")
    if not note and process.returncode:
        raise UsageError(found.strip() or "The search failed.", code="search_failed")
    return f"{found}{note}" or "(nothing found)"


async def _send_and_read(
    process: asyncio.subprocess.Process, request: SearchRequest, answer: bytearray
) -> None:
    if process.stdin is None or process.stdout is None:
        return
    process.stdin.write(msgspec.json.encode(request))
    with suppress(ConnectionError):
        await process.stdin.drain()
    process.stdin.close()
    while portion := await process.stdout.read(65_536):
        answer += portion

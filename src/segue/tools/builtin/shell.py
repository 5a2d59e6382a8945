"""The tool that runs a command line.

The command gets a process group of its own, which ends with it: at a timeout, when the turn is cancelled, and when the
command is over but has left something running. It starts in the workspace, but nothing holds it there: that is what
approval is for. Keys, tokens and passwords of our own environment are not handed on.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from segue.redaction import redact_environment
from segue.tools.builtin.output_limit import MAX_KEPT, left_out
from segue.tools.definition import Context, Output, Tool
from segue.tools.function_tools import as_tool, tool

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from segue.tools.builtin.output_limit import Outputs
    from segue.tools.builtin.workspace import Workspace

MAX_SECONDS: Final = 600
GRACE: Final = 1.0
"""Seconds to end by itself after being asked to."""
TRAILING: Final = 0.2
"""Seconds for output that is still under way when the command is over."""
_TOLD_EVERY: Final = 0.1
_MAX_TOLD: Final = 2_000
_QUIET: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Nobody sits at this terminal."""


def shell_tool(workspace: Workspace, outputs: Outputs) -> Tool:
    """run_shell."""

    @tool(effect="run", timeout=MAX_SECONDS + 30.0)
    async def run_shell(
        command: Annotated[str, Meta(min_length=1, description="A command line for the shell.")],
        context: Context,
        seconds: Annotated[
            float, Meta(gt=0, le=MAX_SECONDS, description="When to end it at the latest.")
        ] = 120,
    ) -> Output:
        """Run a command line in the workspace root and tell its output and exit code.

        There is no terminal and no input. What it starts in the background ends with it.
        """
        hearing = _Hearing(outputs, context)
        try:
            code = await _run(command, workspace.root, hearing, seconds)
        finally:
            hearing.close()
        said = hearing.text()
        if code is None:
            return Output(
                error=f"The command was ended after {seconds:g} seconds. Its output until then:\n{said}"
            )
        return Output(
            said
            if code == 0 and said
            else f"{said}{'' if not said or said[-1] == chr(10) else chr(10)}(exit code {code})"
        )

    return as_tool(run_shell)


async def _run(command: str, root: Path, hearing: _Hearing, seconds: float) -> int | None:
    """The exit code; None when the time was up."""
    # Not asyncio's own pipe: with that, waiting for a process waits for whoever inherited its output, too.
    ours, theirs = os.pipe()
    try:
        process = await _start(command, root, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    listening = asyncio.ensure_future(_listen(ours, hearing))
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
        await asyncio.wait([listening], timeout=TRAILING)
    except TimeoutError:
        _signal(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
        return None
    else:
        return code
    finally:
        _signal(process.pid, signal.SIGKILL)
        listening.cancel()
        # The process is dead: both are over within a moment, also when this task is being cancelled.
        await asyncio.wait([listening, asyncio.ensure_future(process.wait())], timeout=GRACE)


async def _start(command: str, root: Path, output: int) -> asyncio.subprocess.Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command),
            cwd=root,
            env=redact_environment(os.environ) | _QUIET,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # By now it may run, and have started others: asyncio alone would end only the shell.
        await asyncio.wait([starting])
        if starting.exception() is None:
            _signal(starting.result().pid, signal.SIGKILL)
            await starting.result().wait()
        raise


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _listen(descriptor: int, hearing: _Hearing) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while portion := await reader.read(65_536):
            hearing.feed(portion)
    finally:
        transport.close()


class _Hearing:
    """What a command says: told as progress, the ends kept for the model, the whole written to disk when it is long."""

    def __init__(self, outputs: Outputs, context: Context) -> None:
        self._outputs = outputs
        self._context = context
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._half = outputs.limit // 2
        self._head = ""
        self._tail = ""
        self._characters = 0
        self._untold = ""
        self._told_at = 0.0
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._written = 0

    def feed(self, data: bytes) -> None:
        self._take(self._decoder.decode(data))

    def close(self) -> None:
        self._take(self._decoder.decode(b"", final=True), last=True)
        if self._file is not None:
            self._file.close()

    def text(self) -> str:
        missing = self._characters - len(self._head) - len(self._tail)
        if self._path is None or missing <= 0:
            return self._head + self._tail
        return f"{self._head}{left_out(missing, self._path)}{self._tail}"

    def _take(self, text: str, *, last: bool = False) -> None:
        self._characters += len(text)
        room = self._half - len(self._head)
        self._head += text[:room] if room > 0 else ""
        held = self._tail + text[max(room, 0) :]
        if self._file is None and len(held) > self._half:
            self._path, self._file = self._outputs.begin(self._context)
            self._write(self._head + held)
        elif self._file is not None:
            self._write(text)
        self._tail = held[-self._half :]
        self._tell(text, last=last)

    def _write(self, text: str) -> None:
        data = text.encode()[: MAX_KEPT - self._written]
        if self._file is not None and data:
            self._written += self._file.write(data)

    def _tell(self, text: str, *, last: bool) -> None:
        self._untold = (self._untold + text)[-_MAX_TOLD:]
        now = time.monotonic()
        if self._untold and (last or now - self._told_at >= _TOLD_EVERY):
            self._context.progress(self._untold)
            self._untold, self._told_at = "", now

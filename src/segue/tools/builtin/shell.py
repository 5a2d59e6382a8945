"""The tool that runs a command line.

The command gets a process group of its own, which ends with it: at a timeout, when the turn is cancelled, and when the
command is over but has left something running; and also when this very process is killed. It starts in the workspace,
but nothing holds it there: that is what approval is for. Keys are neither handed on nor left in what it prints.
"""

from __future__ import annotations

import asyncio
import codecs
import signal
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from segue.child_process import SHELL, ChildProcess, child_environment, read_pipe
from segue.redaction import StreamRedaction
from segue.tools.builtin.output_limit import MAX_KEPT, omission_note
from segue.tools.definition import Context, Output, StoppedCallError, Tool
from segue.tools.function_tools import as_tool, tool

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from segue.tools.builtin.output_limit import OutputLimit
    from segue.tools.builtin.workspace import Workspace

MAX_SECONDS: Final = 600
GRACE: Final = 1.0
"""Seconds to end by itself after being asked to."""
TRAILING: Final = 0.2
"""Seconds for output that is still under way when the command is over."""
_REPORT_SECONDS: Final = 0.1
_MAX_REPORTED: Final = 2_000
_QUIET: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""No person reads this terminal."""


def shell_tool(workspace: Workspace, outputs: OutputLimit) -> Tool:
    """run_shell."""

    @tool(effect="run", timeout=MAX_SECONDS + 30.0)
    async def run_shell(
        command: Annotated[str, Meta(min_length=1, description="A command line for the shell.")],
        context: Context,
        seconds: Annotated[
            float, Meta(gt=0, le=MAX_SECONDS, description="When to end it at the latest.")
        ] = 120,
    ) -> Output:
        """Run a command line in the workspace root and return its output and exit code.

        There is no terminal and no input. What it starts in the background ends with it.
        """
        captured = _CommandOutput(outputs, context)
        try:
            with closing(captured):
                code = await _run(command, workspace.root, captured, seconds)
        except asyncio.CancelledError as error:
            if printed := captured.text():
                raise StoppedCallError(printed) from error
            raise
        text = captured.text()
        if code is None:
            return Output(
                error=f"The command was ended after {seconds:g} seconds. Its output until then:\n{text}"
            )
        return Output(
            text
            if code == 0 and text
            else f"{text}{'' if not text or text[-1] == chr(10) else chr(10)}(exit code {code})"
        )

    return as_tool(run_shell)


async def _run(command: str, root: Path, captured: _CommandOutput, seconds: float) -> int | None:
    """The exit code; None when the time was up."""
    child = await ChildProcess.start(
        (SHELL, "-c", command),
        cwd=root,
        env=child_environment() | _QUIET,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.STDOUT,
    )
    process = child.process
    reading = asyncio.ensure_future(_read_output(child.output, captured))
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
        await asyncio.wait([reading], timeout=TRAILING)
    except TimeoutError:
        child.signal(signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
        return None
    else:
        return code
    finally:
        child.end()
        reading.cancel()
        # The process is dead: both are over within a moment, also when this task is being cancelled.
        await asyncio.wait([reading, asyncio.ensure_future(process.wait())], timeout=GRACE)


async def _read_output(descriptor: int, captured: _CommandOutput) -> None:
    reader, transport = await read_pipe(descriptor)
    try:
        while portion := await reader.read(65_536):
            captured.feed(portion)
    finally:
        transport.close()


class _CommandOutput:
    """What a command prints: reported as progress, its two ends kept for the model, all of it on disk if it is long."""

    def __init__(self, outputs: OutputLimit, context: Context) -> None:
        self._outputs = outputs
        self._context = context
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._redaction = StreamRedaction()
        self._half = outputs.limit // 2
        self._head = ""
        self._tail = ""
        self._characters = 0
        self._unreported = ""
        self._reported_at = 0.0
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._written = 0

    def feed(self, data: bytes) -> None:
        self._add(self._redaction.feed(self._decoder.decode(data)))

    def close(self) -> None:
        self._add(self._redaction.feed(self._decoder.decode(b"", final=True), last=True), last=True)
        if self._file is not None:
            self._file.close()

    def text(self) -> str:
        missing = self._characters - len(self._head) - len(self._tail)
        if self._path is None or missing <= 0:
            return self._head + self._tail
        return f"{self._head}{omission_note(missing, self._path)}{self._tail}"

    def _add(self, text: str, *, last: bool = False) -> None:
        self._characters += len(text)
        room = self._half - len(self._head)
        self._head += text[:room] if room > 0 else ""
        held = self._tail + text[max(room, 0) :]
        if self._file is None and len(held) > self._half:
            self._path, self._file = self._outputs.open_file(self._context)
            self._write(self._head + held)
        elif self._file is not None:
            self._write(text)
        self._tail = held[-self._half :]
        self._report(text, last=last)

    def _write(self, text: str) -> None:
        data = text.encode()[: MAX_KEPT - self._written]
        if self._file is not None and data:
            self._written += self._file.write(data)

    def _report(self, text: str, *, last: bool) -> None:
        self._unreported = (self._unreported + text)[-_MAX_REPORTED:]
        now = time.monotonic()
        if self._unreported and (last or now - self._reported_at >= _REPORT_SECONDS):
            self._context.progress(self._unreported)
            self._unreported, self._reported_at = "", now

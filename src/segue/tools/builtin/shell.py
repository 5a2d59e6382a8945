"""The tool that runs a command line.

The command gets a process group of its own, which ends with it: at a timeout, when the turn is cancelled, and when the
command is over but has left something running; and also when this very process is killed. It runs in the sandbox of the
chat, and one that only looks writes nothing at all. Keys are neither handed on nor left in what it prints.
"""

from __future__ import annotations

import asyncio
import codecs
import signal
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, final

from msgspec import Meta, Struct, structs

from segue.system.child_process import SHELL, read_pipe
from segue.system.worker_threads import in_thread
from segue.text.redaction import StreamRedaction
from segue.tools.builtin.output_limit import MAX_KEPT, omission_note
from segue.tools.definition import Context, Output, StoppedCallError, Tool
from segue.tools.function_tools import as_tool, tool
from segue.tools.read_only_commands import only_reads
from segue.tools.sandbox.policy import Grant
from segue.tools.sandbox.refusals import Blocked
from segue.tools.sandbox.sandbox import ConfinedProcess, Sandbox, grant_for

if TYPE_CHECKING:
    from typing import BinaryIO

    from segue.conversation.blocks import ToolCall
    from segue.tools.builtin.output_limit import OutputLimit
    from segue.tools.builtin.workspace import Workspace
    from segue.tools.sandbox.policy import SandboxPolicy

MAX_SECONDS: Final = 600
GRACE: Final = 1.0
"""Seconds to end by itself after being asked to."""
TRAILING: Final = 0.2
"""Seconds for output that is still under way when the command is over."""
GRANT_SECONDS: Final = 600.0
"""How long the user is waited for who can allow what was blocked."""
_REPORT_SECONDS: Final = 0.1
_MAX_REPORTED: Final = 2_000
_QUIET: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"} | {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_update_notifier": "false",
}
"""No person reads this terminal, and none wants to know of newer versions."""


def shell_tool(workspace: Workspace, outputs: OutputLimit, sandbox: Sandbox) -> Tool:
    """run_shell."""

    @tool(effect="run", timeout=MAX_SECONDS + GRANT_SECONDS + 30.0)
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
        attempt = _Attempt(sandbox, workspace.root, command, seconds)
        ended = await attempt.run(outputs, context)
        more = await _granted(sandbox, context.call, ended)
        if more is not None:
            ended = await structs.replace(attempt, more=more).run(outputs, context)
        return ended.output(seconds)

    return structs.replace(as_tool(run_shell), sandbox=sandbox)


async def _granted(sandbox: Sandbox, call: ToolCall, ended: _Ended) -> Grant | None:
    """What the user allows so that a command that was blocked and failed can run again; None if nothing."""
    if not ended.code or not ended.blocked.can_be_allowed or sandbox.ask is None:
        return None
    try:
        async with asyncio.timeout(GRANT_SECONDS):
            decision = await sandbox.ask(call, ended.blocked)
    except TimeoutError:
        return None
    if decision == "no":
        return None
    grant = grant_for(ended.blocked)
    if decision == "always":
        sandbox.granted = sandbox.granted.plus(grant)
    return grant


@final
class _Attempt(Struct, frozen=True):
    """One command, to be run once."""

    sandbox: Sandbox
    root: Path
    command: str
    seconds: float
    more: Grant | None = None
    """What the user has allowed for it."""

    async def run(self, outputs: OutputLimit, context: Context) -> _Ended:
        captured = _CommandOutput(outputs, context)
        policy = await in_thread(self._policy)
        try:
            with closing(captured):
                code, running = await self._run(policy, captured)
        except asyncio.CancelledError as error:
            if printed := captured.text():
                raise StoppedCallError(printed) from error
            raise
        text = captured.text()
        blocked = Blocked() if policy is None else running.blocked(text, policy)
        return _Ended(text, code, blocked)

    def _policy(self) -> SandboxPolicy | None:
        if not self.sandbox.confines:
            return None
        return self.sandbox.policy(read_only=only_reads(self.command), more=self.more)

    async def _run(
        self, policy: SandboxPolicy | None, captured: _CommandOutput
    ) -> tuple[int | None, ConfinedProcess]:
        """The exit code; None when the time was up."""
        place = {} if policy is not None else {"cwd": self.root}
        running = await self.sandbox.start(
            (SHELL, "-c", self.command),
            policy,
            variables=_QUIET,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.STDOUT,
            **place,
        )
        child, process = running.child, running.child.process
        reading = asyncio.ensure_future(_read_output(child.output, captured))
        code: int | None = None
        try:
            async with asyncio.timeout(self.seconds):
                code = await process.wait()
            await asyncio.wait([reading], timeout=TRAILING)
        except TimeoutError:
            child.signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE)
        finally:
            child.end()
            reading.cancel()
            # The process is dead: both are over within a moment, also when this task is being cancelled.
            await asyncio.wait([reading, asyncio.ensure_future(process.wait())], timeout=GRACE)
            await running.close()
        return code, running


@final
class _Ended(Struct, frozen=True):
    """How a command ended; without a code its time was up."""

    text: str
    code: int | None
    blocked: Blocked

    def output(self, seconds: float) -> Output:
        # A search that passes over what it may not read has worked: only what matters is reported.
        matters = self.code != 0 or self.blocked.hosts or self.blocked.undone
        note = _blocked_note(self.blocked) if self.blocked and matters else ""
        text = self.text
        if self.code is None:
            return Output(
                error=f"The command was ended after {seconds:g} seconds. Its output until then:\n{text}{note}"
            )
        if self.code == 0 and text and not note:
            return Output(text)
        line = "" if not text or text.endswith("\n") else "\n"
        return Output(f"{text}{line}(exit code {self.code}){note}")


def _blocked_note(blocked: Blocked) -> str:
    lines = "\n".join(f"- {line}" for line in blocked.lines())
    return f"\n(The sandbox did not let it:\n{lines}\nThe user can allow it. Temporary files go to $TMPDIR.)"


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

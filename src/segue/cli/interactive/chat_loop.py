"""`segue` at a terminal: opens the chat, reads a line, runs it, until the user leaves. A line `!command` runs in a shell."""

from __future__ import annotations

import asyncio
import os
import sys
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import structs
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_input

from segue.cli.exit_codes import Exit
from segue.cli.interactive.commands.sessions import pick_session
from segue.cli.interactive.commands.table import is_command, run_command
from segue.cli.interactive.interactive_chat import InteractiveChat
from segue.cli.interactive.prompts.input_line import PromptReader, read_typed_early
from segue.cli.interactive.prompts.prompt_terminal import gated_output
from segue.cli.interactive.prompts.questions import ConsentPrompt
from segue.cli.interactive.views.screen import Screen
from segue.cli.interactive.views.start_screen import show_session, show_start
from segue.cli.interactive.views.turn_view import show_switch
from segue.cli.runtime import Runtime
from segue.config.paths import history_file
from segue.errors import JournalError
from segue.routing.retry import RetrySettings
from segue.system import signals
from segue.text.redaction import StreamRedaction
from segue.text.terminal_text import Sanitiser

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


MOST: Final = 30_000
"""Characters of output that are kept for the model: the last ones."""
_PORTION: Final = 65_536


async def run_shell_command(interactive: InteractiveChat, command: str) -> None:
    """No approval is needed: the user typed it. Ctrl-C reaches the command, which shares the terminal, and not segue."""
    if not command:
        return
    process = await asyncio.create_subprocess_shell(
        command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=interactive.runtime.directory,
    )
    output = ""
    decoder, sanitiser = getincrementaldecoder("utf-8")("replace"), Sanitiser()
    redaction = StreamRedaction()  # the output is sent to a model: `!env` must not send keys along
    assert process.stdout is not None  # noqa: S101 - it was asked for above
    while data := await process.stdout.read(_PORTION):
        output = _show(interactive, output, sanitiser.feed(redaction.feed(decoder.decode(data))))
    output = _show(interactive, output, sanitiser.feed(redaction.feed("", last=True)))
    code = await process.wait()
    interactive.screen.end_text()
    if code < 0:
        code = 128 - code  # as shells report a signal
    if code:
        interactive.screen.line(f"exit code {code}", "yellow")
    interactive.command_outputs.append(f'<command line="{command}" exit="{code}">\n{output}</command>')


def _show(interactive: InteractiveChat, output: str, shown: str) -> str:
    interactive.screen.put(shown)
    return (output + shown)[-MOST:]


PATIENT: Final = RetrySettings(attempts=8, first_pause=1.0, longest_pause=30.0, total=60.0)
"""At a terminal somebody watches the countdown and can stop it."""


def run(arguments: argparse.Namespace) -> int:
    with create_app_session(output=gated_output()):
        return int(asyncio.run(_run(arguments)))


async def _run(arguments: argparse.Namespace) -> Exit:
    runtime = Runtime(arguments)
    # Per turn: a one-shot counts the whole run, but a chat has no end.
    max_cost = arguments.max_cost or runtime.config.limits.max_cost
    runtime.budget = structs.replace(runtime.budget, max_cost=max_cost)
    runtime.retry = PATIENT
    plain = arguments.plain or os.environ.get("TERM") == "dumb"
    screen = Screen(sys.stdout, plain=plain, markdown=runtime.config.ui.markdown)
    try:
        if arguments.resume == "":
            arguments.resume = await pick_session(runtime, screen)
            if not arguments.resume:
                return Exit.INTERRUPTED
        source = create_input()
        consent = ConsentPrompt(screen, source)
        chat = await runtime.open_chat(
            report=lambda line: screen.paragraph(line, "dim"),
            on_switch=lambda switch: show_switch(screen, switch),
            ask=consent,
        )
        interactive = InteractiveChat(chat, runtime, screen, source)
        interactive.queue, interactive.unsent = consent.typed_lines, consent.begun
        return await run_lines(interactive, history=None if arguments.no_session else history_file())
    finally:
        await runtime.close()


async def run_lines(interactive: InteractiveChat, *, history: Path | None = None) -> Exit:
    """Read and run lines until the user leaves or the process is ended."""
    interactive.runtime.approval.ask = interactive.ask
    interactive.runtime.sandbox.ask = interactive.ask_grant
    if interactive.runtime.mcp is not None:
        interactive.runtime.mcp.ask = interactive.answer
    await interactive.chat.open()
    loop = _InputLoop(interactive, history)
    try:
        # All the time: what is typed between two prompts must arrive as it would at a prompt.
        with interactive.source.raw_mode(), signals.handle(dict.fromkeys(signals.END, loop.end)):
            await loop.run()
    finally:
        session, used = interactive.chat.id, bool(interactive.chat.conversation.messages)
        if used:
            with suppress(JournalError):  # somebody else has taken the session over
                await interactive.runtime.remember_tools(interactive.chat)
        await interactive.chat.close()
    if used and history is not None:
        interactive.screen.paragraph(f"Resume with: segue -r {session}", "dim", 2)
    return loop.exit


class _InputLoop:
    """The loop, and how it is ended from outside."""

    def __init__(self, interactive: InteractiveChat, history: Path | None) -> None:
        self._interactive = interactive
        self._reader = PromptReader(interactive, history)
        self._task = asyncio.current_task()
        self.exit = Exit.OK

    def end(self) -> None:
        """The process is ended, or the terminal is gone: stop the turn, keep the session, write nothing more."""
        self.exit, self._interactive.leaving = Exit.TERMINATED, True
        if not _is_open(sys.stdout.fileno()):
            null = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):
                os.dup2(null, stream.fileno())
        if not self._interactive.chat.cancel() and self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        interactive = self._interactive
        lines, begun = read_typed_early(interactive.source.fileno())
        interactive.queue += lines
        interactive.unsent += begun
        await self._greet()
        try:
            while not interactive.leaving:
                line = await self._next_line()
                if line is None:
                    return
                if line.strip() or interactive.can_retry:
                    await self._run_line(line.strip())
                    interactive.screen.line()
        except asyncio.CancelledError:
            if not interactive.leaving:
                raise
            if self._task is not None:
                self._task.uncancel()

    async def _next_line(self) -> str | None:
        if not self._interactive.queue:
            return await self._reader.read()
        line = self._interactive.queue.pop(0)
        self._interactive.screen.paragraph(f"› {line}", "bold", 2)
        return line

    async def _run_line(self, line: str) -> None:
        interactive = self._interactive
        # A prompt takes this signal for itself and does not give it back.
        with signals.handle({signals.INTERRUPT: self._interrupt}):
            if not line:
                await interactive.retry_turn()
            elif is_command(line):
                await run_command(interactive, line)
            elif line.startswith("!"):
                with interactive.source.cooked_mode():
                    await run_shell_command(interactive, line[1:].strip())
            else:
                await interactive.run_turn(line)

    def _interrupt(self) -> None:
        if self._interactive.chat.busy:
            self._interactive.interrupt(by_ctrl_c=True)

    async def _greet(self) -> None:
        screen, chat = self._interactive.screen, self._interactive.chat
        if self._interactive.unsent:
            screen.control("\r\x1b[K")  # the terminal has shown it already; the prompt shows it again
        if chat.conversation.messages:
            show_session(self._interactive)
            screen.gap()
        else:
            await show_start(self._interactive)


def _is_open(descriptor: int) -> bool:
    """Whether a terminal is still there to write to."""
    try:
        os.get_terminal_size(descriptor)
    except OSError:
        return False
    return True

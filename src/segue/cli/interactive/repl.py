"""The chat in a terminal: read a line, do what it says, until the user leaves."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from prompt_toolkit.input import create_input

from segue.cli import signals
from segue.cli.exit_codes import Exit
from segue.cli.interactive.commands.select import tell_where
from segue.cli.interactive.commands.table import is_command, run_command
from segue.cli.interactive.interactive_chat import InteractiveChat
from segue.cli.interactive.prompt import PromptReader, typed_early
from segue.cli.interactive.shell_escape import run_here

if TYPE_CHECKING:
    from pathlib import Path

    from segue.chat.chat import Chat
    from segue.cli.interactive.screen import Screen
    from segue.cli.runtime import Runtime


async def converse(chat: Chat, runtime: Runtime, screen: Screen, *, history: Path | None = None) -> int:
    """InteractiveChat until the user leaves, or somebody ends us; the exit code tells which."""
    source = create_input()
    interactive = InteractiveChat(chat, runtime, screen, source, show_reasoning=False)
    runtime.approval.ask = interactive.ask
    await chat.open()
    sitting = _InputLoop(interactive, history)
    try:
        # All the time: what is typed between two prompts must arrive as it would at one.
        with source.raw_mode(), signals.handle(dict.fromkeys(signals.END, sitting.end)):
            await sitting.talk_on()
    finally:
        session, said = interactive.chat.id, bool(interactive.chat.conversation.messages)
        await interactive.chat.close()
    if said and history is not None:
        screen.line(f"segue -r {session} goes on with this conversation.", "dim")
    return sitting.exit


class _InputLoop:
    """The loop, and how it is ended from outside."""

    def __init__(self, interactive: InteractiveChat, history: Path | None) -> None:
        self._interactive = interactive
        self._reader = PromptReader(interactive, history)
        self._task = asyncio.current_task()
        self.exit = Exit.OK

    def end(self) -> None:
        """Somebody ends us, or the terminal is gone: stop what runs, keep what was said, write nowhere."""
        self.exit, self._interactive.leaving = Exit.TERMINATED, True
        if not _answers(sys.stdout.fileno()):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):
                os.dup2(nowhere, stream.fileno())
        if not self._interactive.chat.cancel() and self._task is not None:
            self._task.cancel()

    async def talk_on(self) -> None:
        interactive = self._interactive
        interactive.queue, interactive.unsent = typed_early(interactive.source.fileno())
        self._greet()
        try:
            while not interactive.leaving:
                line = await self._next()
                if line is None:
                    return
                if line.strip():
                    await self._do(line.strip())
                    interactive.screen.line()
        except asyncio.CancelledError:
            if not interactive.leaving:
                raise
            if self._task is not None:
                self._task.uncancel()

    async def _next(self) -> str | None:
        if not self._interactive.queue:
            return await self._reader.read()
        line = self._interactive.queue.pop(0)
        self._interactive.screen.paragraph(f"> {line}", indent=2)
        return line

    async def _do(self, line: str) -> None:
        interactive = self._interactive
        # A prompt takes this one for itself, and gives it back to nobody.
        with signals.handle({signals.INTERRUPT: self._interrupted}):
            if is_command(line):
                await run_command(interactive, line)
            elif line.startswith("!"):
                with interactive.cooked():
                    await run_here(interactive, line[1:].strip())
            else:
                await interactive.take_turn(line)

    def _interrupted(self) -> None:
        if self._interactive.chat.busy:
            self._interactive.interrupt()

    def _greet(self) -> None:
        interactive = self._interactive
        if interactive.unsent and not interactive.screen.plain:
            interactive.screen.put("\r\x1b[K")  # the terminal has shown it already; the prompt shows it again
        if interactive.chat.conversation.messages:
            tell_where(interactive)
        else:
            hint = "/help tells what can be typed · ctrl-d leaves"
            interactive.screen.line(interactive.screen.shortened(f"{interactive.chat.model} · {hint}"), "dim")


def _answers(descriptor: int) -> bool:
    """Whether a terminal is still there to write to."""
    try:
        os.get_terminal_size(descriptor)
    except OSError:
        return False
    return True

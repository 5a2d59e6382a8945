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
from segue.cli.interactive.interactive_chat import Talk
from segue.cli.interactive.prompt import Reader, typed_early
from segue.cli.interactive.shell_escape import run_here

if TYPE_CHECKING:
    from pathlib import Path

    from segue.chat.chat import Chat
    from segue.cli.interactive.screen import Screen
    from segue.cli.runtime import Surroundings


async def converse(
    chat: Chat, surroundings: Surroundings, screen: Screen, *, history: Path | None = None
) -> int:
    """Talk until the user leaves, or somebody ends us; the exit code tells which."""
    source = create_input()
    talk = Talk(chat, surroundings, screen, source, show_reasoning=False)
    surroundings.approval.ask = talk.ask
    await chat.open()
    sitting = _Sitting(talk, history)
    try:
        # All the time: what is typed between two prompts must arrive as it would at one.
        with source.raw_mode(), signals.heard(dict.fromkeys(signals.END, sitting.end)):
            await sitting.talk_on()
    finally:
        session, said = talk.chat.id, bool(talk.chat.conversation.messages)
        await talk.chat.close()
    if said and history is not None:
        screen.say(f"segue -r {session} goes on with this conversation.", "dim")
    return sitting.exit


class _Sitting:
    """The loop, and how it is ended from outside."""

    def __init__(self, talk: Talk, history: Path | None) -> None:
        self._talk = talk
        self._reader = Reader(talk, history)
        self._task = asyncio.current_task()
        self.exit = Exit.OK

    def end(self) -> None:
        """Somebody ends us, or the terminal is gone: stop what runs, keep what was said, write nowhere."""
        self.exit, self._talk.leaving = Exit.TERMINATED, True
        if not _answers(sys.stdout.fileno()):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):
                os.dup2(nowhere, stream.fileno())
        if not self._talk.chat.cancel() and self._task is not None:
            self._task.cancel()

    async def talk_on(self) -> None:
        talk = self._talk
        talk.queue, talk.unsent = typed_early(talk.source.fileno())
        self._greet()
        try:
            while not talk.leaving:
                line = await self._next()
                if line is None:
                    return
                if line.strip():
                    await self._do(line.strip())
                    talk.screen.say()
        except asyncio.CancelledError:
            if not talk.leaving:
                raise
            if self._task is not None:
                self._task.uncancel()

    async def _next(self) -> str | None:
        if not self._talk.queue:
            return await self._reader.read()
        line = self._talk.queue.pop(0)
        self._talk.screen.tell(f"> {line}", indent=2)
        return line

    async def _do(self, line: str) -> None:
        talk = self._talk
        # A prompt takes this one for itself, and gives it back to nobody.
        with signals.heard({signals.INTERRUPT: self._interrupted}):
            if is_command(line):
                await run_command(talk, line)
            elif line.startswith("!"):
                with talk.cooked():
                    await run_here(talk, line[1:].strip())
            else:
                await talk.take_turn(line)

    def _interrupted(self) -> None:
        if self._talk.chat.busy:
            self._talk.interrupt()

    def _greet(self) -> None:
        talk = self._talk
        if talk.unsent and not talk.screen.plain:
            talk.screen.put("\r\x1b[K")  # the terminal has shown it already; the prompt shows it again
        if talk.chat.conversation.messages:
            tell_where(talk)
        else:
            hint = "/help tells what can be typed · ctrl-d leaves"
            talk.screen.say(talk.screen.shortened(f"{talk.chat.model} · {hint}"), "dim")


def _answers(descriptor: int) -> bool:
    """Whether a terminal is still there to write to."""
    try:
        os.get_terminal_size(descriptor)
    except OSError:
        return False
    return True

"""One sitting at the terminal: the chat that is open, what its user has set, and how a turn is watched."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from segue.cli.interactive.attachments import with_attachments
from segue.cli.interactive.keys import KeyWatch
from segue.cli.interactive.turn_view import TurnView, call_text
from segue.conversation.blocks import Text
from segue.errors import SegueError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from prompt_toolkit.input import Input

    from segue.chat.chat import Chat
    from segue.chat.events import Decision
    from segue.chat.tool import Tool
    from segue.cli.interactive.screen import Screen
    from segue.cli.surroundings import Surroundings
    from segue.conversation.blocks import ToolCall

TICK_SECONDS = 0.1
TWICE_SECONDS = 2.0
"""A second Ctrl-C within this time leaves."""


class Talk:
    """An interactive chat."""

    def __init__(
        self, chat: Chat, surroundings: Surroundings, screen: Screen, source: Input, *, show_reasoning: bool
    ) -> None:
        self.chat = chat
        self.around = surroundings
        self.screen = screen
        self.show_reasoning = show_reasoning
        self.last_reasoning = ""
        self.leaving = False
        self.queue: list[str] = []
        """Prompts that were typed while a turn ran."""
        self.unsent = ""
        """What was being typed when it ended."""
        self.notes: list[str] = []
        """What commands run here have said: it goes along with the next message."""
        self._source = source
        self._keys: KeyWatch | None = None
        self._interrupted_at = float("-inf")
        self._asking = asyncio.Lock()
        self._view: TurnView | None = None

    async def take_turn(self, prompt: str) -> None:
        """Say something and show what comes of it, until the end of the turn."""
        try:
            notes, self.notes = self.notes, []
            said = (*(Text(note) for note in notes), *with_attachments(prompt, self.around.directory))
        except SegueError as error:
            self.complain(error)
            return
        view = self._view = TurnView(self.screen, show_reasoning=self.show_reasoning)
        keys = self._keys = KeyWatch(
            self._source,
            on_interrupt=self._interrupt,
            on_line=self._typed_line,
            on_typed=lambda typed: setattr(view, "typed", typed),
        )
        ticking = asyncio.create_task(self._tick(view))
        try:
            with keys.watching():
                async for event in self.chat.stream(*said):
                    view.show(event)
        except SegueError as error:
            self.complain(error)
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking
            self.screen.end_text()
            self.screen.live(())
            self.last_reasoning = view.reasoning or self.last_reasoning
            self.unsent, self._keys, self._view = keys.left_over, None, None

    async def ask(self, call: ToolCall, tool: Tool) -> Decision:
        """Whether a call may run: once, always in this session, or not at all."""
        del tool
        async with self._asking:
            if self._keys is None:
                return "no"
            self.screen.say(self.screen.paint("bold", f"? {call_text(call)}"))
            self.screen.say("  [y] once   [a] always in this session   [n] no")
            while True:
                key = (await self._keys.ask()).lower()
                if key in ("y", "a", "n", ""):
                    answer: Decision = {"y": "once", "a": "always"}.get(key, "no")  # type: ignore[assignment]
                    self.screen.say(self.screen.paint("dim", f"  {answer}"))
                    return answer

    async def change(self, chat: Chat) -> None:
        """Go on with another chat, when it could be opened."""
        await chat.open()
        await self.chat.close()
        self.chat = chat

    def cooked(self) -> AbstractContextManager[None]:
        """The terminal as other programs expect it, for as long as one of them has it."""
        return self._source.cooked_mode()

    def complain(self, error: SegueError) -> None:
        place = f" (at {error.path})" if error.path else ""
        self.screen.say(self.screen.paint("red", f"✗ {error.message}{place}"))
        if error.hint:
            self.screen.say(f"  {error.hint}")

    def _interrupt(self) -> None:
        now = time.monotonic()
        if now - self._interrupted_at < TWICE_SECONDS:
            self.leaving = True
        self._interrupted_at = now
        self.chat.cancel()

    def _typed_line(self, line: str) -> None:
        """Commands about the next turn work during this one; everything else waits for its end."""
        from segue.cli.interactive.commands import works_meanwhile  # noqa: PLC0415 - commands know what a talk is

        if works_meanwhile(line):
            task = asyncio.get_running_loop().create_task(self._command(line))
            task.add_done_callback(lambda done: done.exception())
            return
        self.queue.append(line)
        self.screen.say(self.screen.paint("dim", f"  waits for the end of this turn: {line}"))

    async def _command(self, line: str) -> None:
        from segue.cli.interactive.commands import run_command  # noqa: PLC0415

        await run_command(self, line)

    async def _tick(self, view: TurnView) -> None:
        while not view.finished:
            await asyncio.sleep(TICK_SECONDS)
            if not self._asking.locked():
                view.tick()


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()

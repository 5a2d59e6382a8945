"""The chat in a terminal: read a line, do what it says, until the user leaves."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, get_args

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.patch_stdout import patch_stdout

from segue.chat.approval import Mode
from segue.cli.exits import Exit
from segue.cli.interactive.choosing import tell_where
from segue.cli.interactive.commands import is_command, run_command
from segue.cli.interactive.completing import TalkCompleter
from segue.cli.interactive.shell import run_here
from segue.cli.interactive.talk import TWICE_SECONDS, Talk

if TYPE_CHECKING:
    from pathlib import Path

    from prompt_toolkit.key_binding import KeyPressEvent

    from segue.chat.chat import Chat
    from segue.cli.interactive.screen import Screen
    from segue.cli.surroundings import Surroundings


async def converse(
    chat: Chat,
    surroundings: Surroundings,
    screen: Screen,
    *,
    history: Path | None = None,
    show_reasoning: bool = False,
    first: str = "",
) -> int:
    """Talk until the user leaves. `first` is said before anything is read; the exit code tells how it ended."""
    source = create_input()
    talk = Talk(chat, surroundings, screen, source, show_reasoning=show_reasoning)
    surroundings.approval.ask = talk.ask
    await chat.open()
    if chat.conversation.messages:
        tell_where(talk)
    else:
        screen.say(screen.paint("dim", f"{chat.model} · /help tells what can be typed · ctrl-d leaves"))
    reader = _Reader(talk, history)
    if first:
        talk.queue.append(first)
    try:
        # All the time: what is typed between two prompts must arrive as it would at one.
        with source.raw_mode():
            while not talk.leaving:
                line = talk.queue.pop(0) if talk.queue else await reader.read()
                if line is None:
                    break
                await _do(talk, line)
    finally:
        session = talk.chat.id
        await talk.chat.close()
    screen.say(screen.paint("dim", f"segue -r {session} goes on with this conversation."))
    return Exit.OK


async def _do(talk: Talk, line: str) -> None:
    line = line.strip()
    if is_command(line):
        await run_command(talk, line)
    elif line.startswith("!"):
        with talk.cooked():
            await run_here(talk, line[1:].strip())
    elif line:
        await talk.take_turn(line)


class _Reader:
    """Reads what is typed at rest."""

    def __init__(self, talk: Talk, history: Path | None) -> None:
        self._talk = talk
        self._interrupted_at = float("-inf")
        if history is not None:
            history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            history.touch(mode=0o600)
        self._session: PromptSession[str] = PromptSession(
            history=FileHistory(str(history)) if history is not None else InMemoryHistory(),
            completer=TalkCompleter(talk),
            complete_while_typing=True,
            multiline=True,
            key_bindings=_bindings(talk),
            bottom_toolbar=self._toolbar,
            enable_open_in_editor=True,
            prompt_continuation="  ",
        )

    async def read(self) -> str | None:
        """The next line; nothing when the user leaves. Ctrl-C clears a line; on an empty one, twice, it leaves."""
        unsent, self._talk.unsent = self._talk.unsent, ""
        try:
            with patch_stdout(raw=True):
                return await self._session.prompt_async("> ", default=unsent)
        except EOFError:
            return None
        except KeyboardInterrupt:
            now = time.monotonic()
            again = now - self._interrupted_at < TWICE_SECONDS
            self._interrupted_at = now
            if again:
                return None
            self._talk.screen.say(self._talk.screen.paint("dim", "ctrl-c again leaves"))
            return ""
        except asyncio.CancelledError:
            return None

    def _toolbar(self) -> str:
        mode = self._talk.around.approval.mode
        return f" {self._talk.chat.model} · {mode} · {self._talk.around.directory.name}"


def _bindings(talk: Talk) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("c-j")
    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        shown = talk.last_reasoning.strip() or "Nothing was thought aloud."
        dimmed = "\n".join(talk.screen.paint("dim", f"  {line}") for line in shown.splitlines())
        _above(event, lambda: talk.screen.say(dimmed))

    @keys.add("s-tab")
    def _(event: KeyPressEvent) -> None:
        modes = get_args(Mode)
        now = modes.index(talk.around.approval.mode)
        talk.around.approval.mode = modes[(now + 1) % len(modes)]
        event.app.invalidate()

    @keys.add("c-y")
    def _(event: KeyPressEvent) -> None:
        approval = talk.around.approval
        approval.mode = "ask" if approval.mode == "yolo" else "yolo"
        event.app.invalidate()

    @keys.add("c-g")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    return keys


def _above(event: KeyPressEvent, show: Any) -> None:
    """Say something above the line that is being typed."""
    from prompt_toolkit.application import run_in_terminal  # noqa: PLC0415 - belongs to a running prompt

    event.app.create_background_task(_wait_for(run_in_terminal(show)))


async def _wait_for(shown: Any) -> None:
    await shown

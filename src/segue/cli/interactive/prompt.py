"""The input line between turns: its keys, completion and history."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, get_args

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from segue.cli.interactive.completer import ChatCompleter
from segue.cli.interactive.interactive_chat import TWICE_SECONDS
from segue.terminal_text import sanitised
from segue.tools.approval import Mode

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from prompt_toolkit.key_binding import KeyPressEvent

    from segue.cli.interactive.interactive_chat import InteractiveChat

_STYLE = Style.from_dict({"bottom-toolbar": "noreverse dim", "prompt": "bold"})
_EARLY_BYTES = 1 << 20
LOW = 12
"""Rows below which there are no completions and no toolbar."""


def read_typed_early(descriptor: int) -> tuple[list[str], str]:
    """Lines that were typed while segue started, and the beginning of one more.

    Until now the terminal was in its normal mode, where Enter arrives as the end of a line.
    """
    data = b""
    while len(data) < _EARLY_BYTES and select.select([descriptor], [], [], 0)[0]:
        portion = os.read(descriptor, 65_536)
        if not portion:
            break
        data += portion
    *lines, begun = sanitised(data.decode("utf-8", "replace").replace("\r", "\n")).split("\n")
    return [line for line in lines if line.strip()], begun


class PromptReader:
    """Reads one line at a time."""

    def __init__(self, interactive: InteractiveChat, history: Path | None) -> None:
        self._interactive = interactive
        self._interrupted_at = float("-inf")
        if history is not None:
            history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            history.touch(mode=0o600)
        plain = interactive.screen.plain
        self._session: PromptSession[str] = PromptSession(
            history=FileHistory(str(history)) if history is not None else InMemoryHistory(),
            completer=ChatCompleter(interactive),
            complete_while_typing=not plain,
            multiline=True,
            key_bindings=_bindings(interactive),
            color_depth=ColorDepth.MONOCHROME if interactive.screen.paint.plain else None,
            style=_STYLE,
            enable_suspend=True,
            prompt_continuation="  ",
        )

    async def read(self) -> str | None:
        """The next line; None if the user leaves. Ctrl-C clears a line; twice on an empty line, it leaves."""
        unsent, self._interactive.unsent = self._interactive.unsent, ""
        # A screen of a few rows has room for the input line only.
        room = 0 if self._interactive.screen.plain or self._interactive.screen.height < LOW else 8
        self._session.bottom_toolbar = self._toolbar if room else None
        try:
            with patch_stdout(raw=True):
                return await self._session.prompt_async(
                    [("class:prompt", "> ")], default=unsent, reserve_space_for_menu=room
                )
        except EOFError:
            return None
        except KeyboardInterrupt:
            now = time.monotonic()
            again = now - self._interrupted_at < TWICE_SECONDS
            self._interrupted_at = now
            if again:
                return None
            self._interactive.screen.line("press ctrl-c again to leave", "dim")
            return ""

    def _toolbar(self) -> str:
        interactive = self._interactive
        shown = f" {interactive.chat.model} · approval: {interactive.runtime.approval.mode} · {interactive.runtime.directory.name}"
        return interactive.screen.shortened(shown)


def _bindings(interactive: InteractiveChat) -> KeyBindings:
    keys = KeyBindings()
    # During a history search the keys belong to the search.
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("c-j", filter=typing)
    @keys.add("escape", "enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=typing)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    @keys.add("escape", "escape", filter=typing)
    def _(event: KeyPressEvent) -> None:
        if not event.current_buffer.text:
            event.app.exit(result="/rewind")

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        event.app.create_background_task(_finished(run_in_terminal(lambda: _show_reasoning(interactive))))

    @keys.add("s-tab")
    def _(event: KeyPressEvent) -> None:
        modes = get_args(Mode)
        now = modes.index(interactive.runtime.approval.mode)
        interactive.runtime.approval.mode = modes[(now + 1) % len(modes)]
        event.app.invalidate()

    @keys.add("c-y", filter=typing)
    def _(event: KeyPressEvent) -> None:
        approval = interactive.runtime.approval
        approval.mode = "ask" if approval.mode == "yolo" else "yolo"
        event.app.invalidate()

    @keys.add("c-g", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    return keys


def _show_reasoning(interactive: InteractiveChat) -> None:
    for line in (
        interactive.last_reasoning.strip() or "The last answer has no visible reasoning."
    ).splitlines():
        interactive.screen.paragraph(f"  {line}", "dim", 2)


async def _finished(shown: Awaitable[None]) -> None:
    await shown

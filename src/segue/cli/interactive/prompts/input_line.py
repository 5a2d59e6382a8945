"""The input line between turns: its keys, completion and history."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus, to_filter
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.lexers import SimpleLexer
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from segue.chat.compaction.compact import Strategy
from segue.cli.display.turn_summary import dollars, short
from segue.cli.interactive.commands.models import offered_models
from segue.cli.interactive.commands.settings import SETTABLE
from segue.cli.interactive.commands.table import COMMANDS
from segue.cli.interactive.interactive_chat import TWICE_SECONDS
from segue.cli.interactive.pager import page
from segue.cli.interactive.views.start_screen import MODE_WORDS
from segue.dialects.registry import NAMES
from segue.text.terminal_text import sanitised
from segue.tools.approval import Mode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyPressEvent

    from segue.cli.interactive.interactive_chat import InteractiveChat


MOST = 50


class ChatCompleter(Completer):
    """Completes the word at the cursor, from what is known without a request."""

    def __init__(self, interactive: InteractiveChat) -> None:
        self._interactive = interactive

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        text = document.text_before_cursor
        word = document.get_word_before_cursor(WORD=True)
        if text.startswith("/") and " " not in text:
            return self._commands(text[1:])
        if text.startswith("/"):
            return _starting(word, self._arguments(text.split()[0][1:]))
        if word.startswith("@"):
            return self._files(word[1:])
        return ()

    def _commands(self, begun: str) -> Iterator[Completion]:
        for command in COMMANDS:
            if command.name.startswith(begun):
                yield Completion(
                    f"/{command.name}", -len(begun) - 1, display_meta=command.purpose, style="bold"
                )

    def _arguments(self, command: str) -> Iterable[str]:
        match command:
            case "model":
                return offered_models(self._interactive)
            case "profile":
                return self._interactive.runtime.config.profiles
            case "provider" | "key":
                return self._interactive.runtime.providers.list()
            case "view" | "doctor":
                return NAMES
            case "approval" | "permissions":
                return get_args(Mode)
            case "compact" | "compress":
                return get_args(Strategy)
            case "set":
                return ("system", *SETTABLE)
            case _:
                return ()

    def _files(self, begun: str) -> Iterator[Completion]:
        base = self._interactive.runtime.directory
        folder, _, prefix = begun.rpartition("/")
        try:
            entries = sorted((base / Path(folder or ".").expanduser()).iterdir())
        except OSError:
            return
        shown = [entry for entry in entries if entry.name.startswith(prefix) and _visible(entry, prefix)]
        for entry in shown[:MOST]:
            name = f"{folder}/{entry.name}" if folder else entry.name
            yield Completion(f"@{name}{'/' if entry.is_dir() else ''}", -len(begun) - 1)


def _visible(entry: Path, prefix: str) -> bool:
    return not entry.name.startswith(".") or prefix.startswith(".")


def _starting(word: str, names: Iterable[str]) -> Iterator[Completion]:
    found = [name for name in names if word.lower() in name.lower()]
    for name in sorted(found, key=lambda name: not name.startswith(word))[:MOST]:
        yield Completion(name, -len(word))


_STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse dim",
        "prompt": "ansicyan bold",
        "placeholder": "dim",
        "completion-menu": "bg:default",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "bg:default fg:ansicyan bold noreverse",
        "completion-menu.meta.completion": "bg:default fg:default dim",
        "completion-menu.meta.completion.current": "bg:default fg:default nodim noreverse",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default",
    }
)
"""One accent and no backgrounds, so it suits light and dark terminals."""
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

        def interactive_text() -> str:
            return self._session.default_buffer.document.text_before_cursor

        self._session: PromptSession[str] = PromptSession(
            history=FileHistory(str(history)) if history is not None else InMemoryHistory(),
            completer=ChatCompleter(interactive),
            complete_while_typing=Condition(lambda: not plain and _completes(interactive_text())),
            multiline=True,
            key_bindings=_bindings(interactive),
            color_depth=ColorDepth.MONOCHROME
            if interactive.screen.paint.plain or interactive.screen.paint.colourless
            else None,
            style=_STYLE,
            enable_suspend=True,
            prompt_continuation="  ",
            lexer=SimpleLexer("bold"),
            placeholder=lambda: [
                ("class:placeholder", "enter tries again" if interactive.can_retry else "Ask anything")
            ],
        )
        for window in self._session.layout.find_all_windows():
            if isinstance(window.content, BufferControl):
                window.dont_extend_height = to_filter(True)  # noqa: FBT003 - the status line stands right below

    async def read(self) -> str | None:
        """The next line; None if the user leaves. Ctrl-C clears a line; twice on an empty line, it leaves."""
        unsent, self._interactive.unsent = self._interactive.unsent, ""
        # A screen of a few rows has room for the input line only.
        room = 0 if self._interactive.screen.plain or self._interactive.screen.height < LOW else 8
        self._session.bottom_toolbar = self._toolbar if room else None
        self._interactive.screen.typed()
        try:
            with patch_stdout(raw=True):
                return await self._session.prompt_async(
                    [("class:prompt", "› ")], default=unsent, reserve_space_for_menu=room
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
        return self._interactive.screen.shortened(f"  {status_line(self._interactive)}")


def status_line(interactive: InteractiveChat) -> str:
    """Model, approval mode, share of the context window, cost of the session; unknown parts are not shown."""
    chat, tokens = interactive.chat, interactive.context_tokens
    limit = chat.router.context_limit
    share = f"{tokens / limit:.0%} of {short(limit)}" if tokens and limit else ""
    mode = interactive.runtime.approval.mode
    parts = [
        chat.model.partition("/")[2] or chat.model,
        MODE_WORDS[mode] if interactive.runtime.tools or mode != "ask" else "no tools",
        share,
        dollars(cost) if (cost := interactive.forked_cost + (chat.cost or 0.0)) else "",
    ]
    return " · ".join(part for part in parts if part)


def _completes(text: str) -> bool:
    """Whether a list of completions belongs under this text; its rows are kept free only then."""
    return text.startswith("/") or text.rpartition(" ")[2].startswith("@")


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

    _add_view_keys(keys, interactive)
    return keys


def _add_view_keys(keys: KeyBindings, interactive: InteractiveChat) -> None:
    """Keys that show something or change the mode, and send nothing."""
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        lines = interactive.last_turn or ["The last turn has no reasoning and no calls."]
        paging = run_in_terminal(lambda: page(interactive.screen, lines), in_executor=True)
        event.app.create_background_task(_finished(paging))

    @keys.add("?", filter=typing)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.insert_text("?")
        else:
            event.app.exit(result="/help")

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


async def _finished(shown: Awaitable[None]) -> None:
    await shown

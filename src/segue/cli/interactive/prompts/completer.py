"""Completion of the input line: commands, models, dialects, files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from prompt_toolkit.completion import Completer, Completion

from segue.chat.compaction.compact import Strategy
from segue.cli.interactive.commands.models import offered_models
from segue.cli.interactive.commands.settings import SETTABLE
from segue.cli.interactive.commands.table import COMMANDS
from segue.dialects.registry import NAMES
from segue.tools.approval import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

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

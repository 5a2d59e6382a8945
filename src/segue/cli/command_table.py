"""The commands: their names, what they are for, and their parsers. A module is loaded when its command is used."""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from typing import Any, Final

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "models": ("segue.cli.commands.models", "list, show, fetch and remove models"),
    "embed": ("segue.cli.commands.embed", "turn texts into vectors"),
    "health": ("segue.cli.commands.health", "ask all configured providers whether they are well"),
    "sessions": (
        "segue.cli.commands.sessions",
        "list, show, export, import, rename and remove conversations",
    ),
    "config": ("segue.cli.commands.config", "tell where settings come from, and check them"),
    "keys": ("segue.cli.commands.keys", "store and remove keys of providers"),
    "trust": ("segue.cli.commands.trust", "let a project's files name programs and addresses"),
    "convert": ("segue.cli.commands.convert", "say a request of one provider in the dialect of another"),
    "doctor": ("segue.cli.commands.doctor", "find what a provider would refuse in a transcript, and mend it"),
    "emulate": ("segue.cli.commands.emulate", "serve strict stand-ins of the provider APIs on a port"),
    "demo": ("segue.cli.commands.demo", "show what segue does, without a key"),
    "completion": ("segue.cli.commands.completion", "print what makes a shell complete segue's words"),
}
"""Name → module and what it is for."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, found out without the module that argparse would load for it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns())


def _columns() -> int:
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return min(os.get_terminal_size().columns, 110)
    except OSError:
        return 100


class CommandParser(argparse.ArgumentParser):
    """Tells a wrong word in one line, with the one that was probably meant."""

    def error(self, message: str) -> Any:
        hint = self._meant(message)
        self.exit(2, f"{self.prog}: {message}{hint}\n       {self.prog} --help tells what there is.\n")

    def _meant(self, message: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

        words = [word for word in message.split() if word.startswith("-")]
        known = [name for action in self._actions for name in action.option_strings]
        near = get_close_matches(words[-1].partition("=")[0], known, 1, 0.6) if words else []
        return f". Did you mean {near[0]}?" if near and near[0] != words[-1] else ""


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    module: Any = import_module(COMMANDS[command][0])
    parser = CommandParser(
        prog=f"segue {command}",
        description=module.DESCRIPTION,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def run_command(command: str, words: list[str]) -> int:
    module: Any = import_module(COMMANDS[command][0])
    prepare = getattr(module, "prepare", list)  # where a word may be left out
    return int(module.run(parser_of(command).parse_args(prepare(words))))


def misspelt(words: list[str]) -> str:
    """The command that a prompt of one word was probably meant to be."""
    if len(words) != 1 or " " in words[0]:
        return ""
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(words[0], COMMANDS, 1, 0.75)
    return near[0] if near else ""

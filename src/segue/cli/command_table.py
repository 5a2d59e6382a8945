"""The commands: names, purposes and parsers. A module is loaded when its command is used."""

from __future__ import annotations

import argparse
import os
import re
from functools import partial
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    from segue.config.layers import Settings
    from segue.plugins import Contribution

COMMANDS: Final[dict[str, str]] = {
    "models": "list, show, download and remove models",
    "embed": "turn texts into vectors",
    "batch": "send many requests at once, for half the price",
    "health": "check whether the configured providers answer",
    "sessions": "list, show, export, import, rename and remove sessions",
    "templates": "list your own prompts for -t",
    "agents": "list your own subagents for -T agent:NAME",
    "plugins": "list what other installed packages add",
    "config": "show settings and where they come from; check them",
    "keys": "store, list and remove API keys",
    "trust": "trust the config files of a project",
    "convert": "convert a request to another provider's format",
    "doctor": "find and repair what providers would refuse in a transcript",
    "move": "take a session from one agent to another",
    "verify": "send hard histories to a real model, and see what it accepts",
    "serve": "serve all provider APIs: any client, any model",
    "gateway": "list the gateway's conversations; make keys for callers; check any gateway",
    "usage": "show what your chats and the gateway's callers have used",
    "switch": "change the model of an agent that runs through the gateway",
    "inspect": "open the page that shows what happens to conversations, a session or a file",
    "env": "print what points a program at the gateway",
    "run": "start a program that talks to the gateway",
    "emulate": "serve strict emulators of the provider APIs",
    "demo": "show what segue does, without a key",
    "completion": "print a completion script for your shell",
}
"""Name → purpose. `segue.cli.commands` has a module of each name."""


_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


def help_formatter() -> Any:
    """As wide as the terminal, without the module that argparse would load to measure it; measured once, although argparse
    makes a formatter for every argument."""
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    if not width:
        try:
            width = min(os.get_terminal_size().columns, 110)
        except OSError:
            width = 100
    return partial(argparse.RawDescriptionHelpFormatter, width=width)


class CommandParser(argparse.ArgumentParser):
    """Reports a wrong argument in one line and suggests a similar one."""

    def error(self, message: str) -> Any:
        hint = self._suggestion(message)
        self.exit(2, f"{self.prog}: {message}{hint}\n       Help: {self.prog} --help\n")

    def _suggestion(self, message: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

        if choice := _CHOICE.search(message):
            near = get_close_matches(choice[1], re.findall(r"[\w.-]+", choice[2]), 1, 0.6)
            return f". Did you mean {near[0]}?" if near else ""
        if message.startswith("argument "):  # it is known, and its value is wrong
            return ""
        words = [word for word in message.split() if word.startswith("-")]
        known = [name for action in self._actions for name in action.option_strings]
        near = get_close_matches(words[-1].partition("=")[0], known, 1, 0.6) if words else []
        return f". Did you mean {near[0]}?" if near and near[0] != words[-1] else ""


SET: Final[dict[str, dict[str, Any]]] = {
    "--set": {
        "dest": "sets",
        "action": "append",
        "default": [],
        "metavar": "KEY=VALUE",
        "help": "change a setting for this run",
    }
}
"""`--set KEY=VALUE`, which may be repeated."""


def add_set(parser: Any) -> None:
    for flag, settings in SET.items():
        parser.add_argument(flag, **settings)


def read_settings(sets: Sequence[str]) -> Settings:
    """With what `--set` gives. What a project that is not trusted has set in vain is reported on stderr."""
    from segue.cli.display.terminal import print_status  # noqa: PLC0415 - `--help` needs none of it
    from segue.config.layers import load_settings  # noqa: PLC0415

    settings = load_settings(sets=sets)
    for line in settings.ignored:
        print_status(line)
    return settings


def _module_of(command: str) -> Any:
    return import_module(f"segue.cli.commands.{command}")


def parser_of(command: str, module: Any = None) -> argparse.ArgumentParser:
    """`module`: of a plugin; else that of the table."""
    module = module or _module_of(command)
    parser = CommandParser(
        prog=f"segue {command}",
        description=module.DESCRIPTION,
        formatter_class=help_formatter(),
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def run_command(command: str, words: list[str]) -> int:
    module = _module_of(command)
    complete = getattr(module, "complete", list)  # adds an action that may be omitted
    return int(module.run(parser_of(command, module).parse_args(complete(words))))


_COMMAND: Final = re.compile(r"[a-z][a-z0-9_-]+")


def find_plugin_command(word: str) -> Contribution | None:
    """The command of an installed package that the first word names; None if there is none."""
    if not _COMMAND.fullmatch(word):
        return None
    from segue.plugins import contribution  # noqa: PLC0415 - most first words are flags or prompts

    return contribution("command", word)


def plugin_command(offered: Contribution) -> Any:
    """What a package offers as a command: an object, such as a module, made like those of `segue.cli.commands`."""
    module = offered.load()
    try:
        parser_of(offered.name, module)
        module.run  # noqa: B018 - a module without it is no command
    except Exception as error:
        raise offered.failure("cannot be used as a command", error) from error
    return module


def run_plugin_command(offered: Contribution, words: list[str]) -> int:
    module = plugin_command(offered)
    arguments = parser_of(offered.name, module).parse_args(words)
    from segue.errors import SegueError  # noqa: PLC0415

    try:
        return int(module.run(arguments) or 0)
    except (KeyboardInterrupt, BrokenPipeError, SegueError):
        raise
    except Exception as error:
        raise offered.failure("failed", error) from error


NEAR_MISSES: Final[dict[str, str]] = {
    "chat": "Start a chat: segue, without a prompt",
    "repl": "Start a chat: segue, without a prompt",
    "login": "Store a key: segue keys set PROVIDER",
    "auth": "Store a key: segue keys set PROVIDER",
    "resume": "Resume a session: segue -r ID, or segue -c for the last one",
    "continue": "Resume the last session: segue -c",
    "history": "List the sessions: segue sessions list",
    "list": "List models or sessions: segue models, segue sessions list",
    "ls": "List models or sessions: segue models, segue sessions list",
    "providers": "List the providers that can be used: segue health",
    "settings": "Show the settings: segue config show",
    "version": "Print the version: segue --version",
    "server": "Serve the gateway: segue serve",
    "proxy": "Serve the gateway: segue serve",
    "import": "Import a session: segue sessions import FILE",
    "export": "Export a session: segue sessions export ID",
    "logs": "List the sessions: segue sessions list; what the gateway did: segue usage, segue gateway ps",
    "log": "List the sessions: segue sessions list; what the gateway did: segue usage, segue gateway ps",
    "cost": "What your chats and the gateway's callers spent: segue usage; in a chat: /stats",
    "costs": "What your chats and the gateway's callers spent: segue usage; in a chat: /stats",
    "stats": "What your chats and the gateway's callers spent: segue usage; in a chat: /stats",
    "spend": "What your chats and the gateway's callers spent: segue usage",
    "init": "Nothing has to be set up: store a key with segue keys set PROVIDER; settings: segue config show",
    "setup": "Nothing has to be set up: store a key with segue keys set PROVIDER; settings: segue config show",
    "configure": "Show and check the settings: segue config show, segue config check",
    "mcp": "Write MCP servers into .mcp.json and use their tools with -T SERVER; see docs/tools.md",
    "tools": "Offer tools with -T: segue -T all, -T read_file, -T file.py:function",
    "update": "Update the clone and install it again: git pull && python -m pip install '.[all]'",
    "upgrade": "Update the clone and install it again: git pull && python -m pip install '.[all]'",
    "install": "Download a model: segue models pull NAME; plugins are Python packages: pip install NAME",
    "uninstall": "Remove a model: segue models rm NAME; segue itself: pip uninstall segue-llm",
    "pull": "Download a model: segue models pull NAME",
    "exec": 'Give the prompt itself: segue "…"',
    "ask": 'Give the prompt itself: segue "…"',
    "prompt": 'Give the prompt itself: segue "…"',
    "agent": "List your subagents: segue agents; start a program through the gateway: segue run PROGRAM",
    "status": "Check the providers: segue health; the gateway's conversations: segue gateway ps",
    "ping": "Check the providers: segue health",
    "fix": "Repair a transcript or a session: segue doctor --fix FILE",
    "repair": "Repair a transcript or a session: segue doctor --fix FILE",
    "check": "Check a transcript: segue doctor FILE; the settings: segue config check",
    "start": "Serve the gateway: segue serve; a chat: segue",
    "stop": "Stop the gateway with Ctrl-C, or end its process",
    "test": "Try segue without a key: segue demo",
    "commands": "List the commands: segue --help",
}
"""Words that people take for commands, because other tools have them, and what they probably want."""
_ACTIONS_ELSEWHERE: Final = frozenset(("add", "get", "list", "ls", "remove", "rm", "set", "show"))
"""What other tools take behind such a word: `mcp list`."""


def near_miss(words: list[str], *, has_other_flags: bool, is_first: bool) -> str:
    """What to do instead, if the words of a prompt are probably a command that is misspelt or does not exist; else "".

    Flags that segue does not have are a sign of another tool's command: `logs --since 1d`.
    """
    if not words:
        return ""
    first, rest = words[0].lower(), words[1:]
    of_file = len(rest) == 1 and os.path.isfile(rest[0])  # noqa: PTH113 - loads less
    if first in NEAR_MISSES and (not rest or rest[0] in _ACTIONS_ELSEWHERE or has_other_flags or of_file):
        return NEAR_MISSES[first]
    if not is_first:
        is_command = first in COMMANDS and not rest
        return f"A command must be the first word: segue {first} …" if is_command else ""
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(first, COMMANDS, 1, 0.75)
    if near and (not rest or rest[0] in _actions(near[0])):
        return f'Did you mean "{" ".join([near[0], *words[1:]])}"?'
    return ""


def _actions(command: str) -> set[str]:
    """Of `models`: list, show, pull, …"""
    found: set[str] = set()
    for action in parser_of(command)._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= set(action.choices)
    return found

"""The slash commands: names, purposes and functions; parses and runs a typed command."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeAlias, final

from msgspec import Struct

from segue.errors import SegueError, UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

Action: TypeAlias = Callable[["InteractiveChat", list[str]], Awaitable[None]]


@final
class Command(Struct, frozen=True):
    """A slash command."""

    name: str
    takes: str
    """Its arguments, for /help."""
    purpose: str
    function: str
    """`module:function` in this package; loaded when it is first used."""
    aliases: tuple[str, ...] = ()
    meanwhile: bool = False
    """Whether it works while a turn runs."""


COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        "model",
        "[NAME]",
        "switch the model; without a name: choose from a list",
        "models:choose_model",
        meanwhile=True,
    ),
    Command(
        "provider",
        "[NAME]",
        "switch to the default model of a provider",
        "models:choose_provider",
        meanwhile=True,
    ),
    Command(
        "profile",
        "[NAME]",
        "switch to a profile: several models with fallback",
        "models:choose_profile",
        meanwhile=True,
    ),
    Command("compact", "[STRATEGY]", "make the conversation shorter", "sessions:compact", ("compress",)),
    Command("undo", "[N]", "remove the last turn", "sessions:undo"),
    Command("rewind", "[N]", "remove the last turn and edit its prompt", "sessions:rewind"),
    Command("redo", "[N]", "restore a removed turn", "sessions:redo"),
    Command("fork", "", "work in a copy of this session", "sessions:fork"),
    Command("new", "", "start a new session", "sessions:begin"),
    Command("clear", "", "start a new session on an empty screen", "sessions:clear"),
    Command("sessions", "[TEXT]", "list saved sessions", "sessions:show_sessions"),
    Command("resume", "[ID]", "resume a saved session", "sessions:resume", ("continue",)),
    Command("save", "TITLE", "give this session a title", "sessions:save"),
    Command("stats", "", "show tokens and cost so far", "info:show_statistics", ("cost",), meanwhile=True),
    Command("context", "", "show what fills the context window", "info:show_context", meanwhile=True),
    Command("tools", "", "list the tools", "info:show_tools", meanwhile=True),
    Command("agents", "", "list the subagents of files", "info:show_agents", meanwhile=True),
    Command(
        "mcp",
        "[reload]",
        "list the MCP servers; reload asks them again for their tools",
        "info:show_servers",
        meanwhile=True,
    ),
    Command(
        "view",
        "[NAME] [all|changes|raw]",
        "show what a model is sent, with each change marked in its place",
        "view:view",
    ),
    Command("doctor", "[DIALECT…]", "check what providers would refuse without repairs", "view:diagnose"),
    Command(
        "export", "[FILE]", "save the conversation: .json, .md, or .jsonl for the journal", "export:export"
    ),
    Command("dump", "[FILE]", "save the next request as it would be sent", "export:dump"),
    Command("copy", "", "copy the last answer to the clipboard", "export:copy"),
    Command("edit", "", "write the next message in $EDITOR", "compose:edit"),
    Command("init", "", "let the model write AGENTS.md for this project", "compose:init"),
    Command(
        "set", "[KEY VALUE]", "change temperature, max_tokens, effort, system …", "settings:change_setting"
    ),
    Command(
        "approval",
        "[MODE]",
        "which calls need approval: ask, auto-edit, yolo, plan",
        "settings:change_approval",
        ("permissions",),
        meanwhile=True,
    ),
    Command(
        "sandbox",
        "[MODE | allow HOST | allow PATH]",
        "what commands may touch: workspace, read-only, off; allow more for this session",
        "settings:change_sandbox",
        meanwhile=True,
    ),
    Command("key", "PROVIDER", "store an API key (it is not shown)", "settings:store_key"),
    Command("help", "", "list commands and keys", "info:show_help", ("?",), meanwhile=True),
    Command("quit", "", "leave; the session is saved", "info:leave", ("exit", "q")),
)
_BY_NAME: Final = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def is_command(line: str) -> bool:
    """Whether it is `/word …`; a path such as /usr/bin is not."""
    word = line.split(maxsplit=1)[0] if line.strip() else ""
    return word.startswith("/") and "/" not in word[1:]


def works_meanwhile(line: str) -> bool:
    if not is_command(line):
        return False
    command = _BY_NAME.get(line.split(maxsplit=1)[0][1:])
    return command is not None and command.meanwhile


async def run_command(interactive: InteractiveChat, line: str) -> None:
    """Run a typed command. Errors are shown, and the chat continues."""
    try:
        if (prompt := _own_prompt(line, interactive)) is not None:
            await interactive.run_turn(prompt)
            return
        command, words = _parse(line)
        await _action(command)(interactive, words)
    except SegueError as error:
        interactive.show_error(error)
    except OSError as error:
        interactive.show_error(UsageError(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")))
    except Exception as error:  # a bug must not end the chat
        interactive.show_error(
            SegueError(f"/{line.split(maxsplit=1)[0][1:]} failed: {type(error).__name__}: {error}")
        )


def _own_prompt(line: str, interactive: InteractiveChat) -> str | None:
    """The prompt of a template whose name is no command; None if there is none."""
    from segue.config.templates import find_template, template_names  # noqa: PLC0415 - only an unknown word needs it

    name, _, text = line.strip()[1:].partition(" ")
    directory = interactive.runtime.directory
    if name.lower() in _BY_NAME or name not in template_names(directory):
        return None
    return find_template(name, directory).fill(text, {})


def _parse(line: str) -> tuple[Command, list[str]]:
    name, _, rest = line.strip()[1:].partition(" ")
    command = _BY_NAME.get(name.lower())
    if command is None:
        near = get_close_matches(name.lower(), _BY_NAME, 1)
        hint = f"Did you mean /{near[0]}? " if near else ""
        raise UsageError(
            f"There is no command /{name}.", code="unknown_command", hint=f"{hint}All commands: /help"
        )
    try:
        return command, shlex.split(rest)
    except ValueError:
        return command, rest.split()


def _action(command: Command) -> Action:
    from importlib import import_module  # noqa: PLC0415 - only a command needs it

    module, _, function = command.function.partition(":")
    action: Action = getattr(import_module(f"{__package__}.{module}"), function)
    return action

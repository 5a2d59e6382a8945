"""The slash commands: a table of names, what they are for, and what they do."""

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
class Command(Struct, frozen=True, kw_only=True):
    """Something that can be typed after a slash."""

    name: str
    takes: str = ""
    purpose: str
    home: str
    """`module:function` within this package; loaded when it is first used."""
    aliases: tuple[str, ...] = ()
    meanwhile: bool = False
    """Whether it may be typed while a turn runs."""


COMMANDS: Final[tuple[Command, ...]] = (
    Command(name="help", purpose="what can be typed", home="info:show_help", aliases=("?",), meanwhile=True),
    Command(
        name="model",
        takes="[NAME]",
        purpose="who answers next; without a name, who could",
        home="select:choose_model",
        meanwhile=True,
    ),
    Command(
        name="provider",
        takes="[NAME]",
        purpose="another provider, with its usual model",
        home="select:choose_provider",
        meanwhile=True,
    ),
    Command(
        name="profile",
        takes="[NAME]",
        purpose="several models behind one name",
        home="select:choose_profile",
        meanwhile=True,
    ),
    Command(
        name="compact",
        takes="[STRATEGY]",
        purpose="make the conversation shorter",
        home="edit:compact",
        aliases=("compress",),
    ),
    Command(name="undo", takes="[N]", purpose="take the last turn back", home="edit:undo"),
    Command(name="rewind", takes="[N]", purpose="the same, to say it differently", home="edit:rewind"),
    Command(name="redo", purpose="bring it back again", home="edit:redo"),
    Command(name="fork", purpose="go on in a copy of this conversation", home="edit:fork"),
    Command(name="new", purpose="begin another conversation", home="edit:begin"),
    Command(name="clear", purpose="begin another conversation on an empty screen", home="edit:clear"),
    Command(
        name="sessions",
        takes="[TEXT]",
        purpose="the conversations that are kept",
        home="select:show_sessions",
    ),
    Command(
        name="resume",
        takes="[ID]",
        purpose="go on with one of them",
        home="select:resume",
        aliases=("continue",),
    ),
    Command(name="save", takes="TITLE", purpose="give this conversation a title", home="edit:save"),
    Command(
        name="stats",
        purpose="tokens, cost and repairs so far",
        home="info:show_statistics",
        aliases=("cost",),
        meanwhile=True,
    ),
    Command(name="tools", purpose="the tools that may be called", home="info:show_tools", meanwhile=True),
    Command(name="mcp", purpose="the MCP servers and their state", home="info:show_servers", meanwhile=True),
    Command(
        name="view",
        takes="[DIALECT]",
        purpose="this conversation as that provider would receive it",
        home="view:view",
    ),
    Command(
        name="doctor",
        takes="[DIALECT…]",
        purpose="what providers would have refused in it",
        home="view:diagnose",
    ),
    Command(
        name="export",
        takes="[FILE]",
        purpose="write it down: .json, .md, or .jsonl for the journal",
        home="view:export",
    ),
    Command(
        name="dump", takes="[FILE]", purpose="the very next request, as it would be sent", home="view:dump"
    ),
    Command(name="copy", purpose="the last answer, to the clipboard", home="export:copy"),
    Command(name="edit", purpose="write the next message in $EDITOR", home="export:edit"),
    Command(name="init", purpose="let the model write AGENTS.md for this project", home="export:describe"),
    Command(
        name="set",
        takes="[KEY VALUE]",
        purpose="temperature, max_tokens, effort, system …",
        home="edit:change_setting",
    ),
    Command(
        name="approval",
        takes="[MODE]",
        purpose="what is asked about: ask, auto-edit, yolo, plan",
        home="edit:change_approval",
        aliases=("permissions",),
        meanwhile=True,
    ),
    Command(name="key", takes="PROVIDER", purpose="store a key (it is not shown)", home="select:store_key"),
    Command(name="quit", purpose="leave; the conversation is kept", home="info:leave", aliases=("exit", "q")),
)
_BY_NAME: Final = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def is_command(line: str) -> bool:
    """`/word …`; a path such as /usr/bin is none."""
    word = line.split(maxsplit=1)[0] if line.strip() else ""
    return word.startswith("/") and "/" not in word[1:]


def works_meanwhile(line: str) -> bool:
    if not is_command(line):
        return False
    command = _BY_NAME.get(line.split(maxsplit=1)[0][1:])
    return command is not None and command.meanwhile


async def run_command(interactive: InteractiveChat, line: str) -> None:
    """Do what was typed. Whatever goes wrong is said, and the chat goes on."""
    try:
        command, words = _parse(line)
        await _action(command)(interactive, words)
    except SegueError as error:
        interactive.show_error(error)
    except OSError as error:
        interactive.show_error(UsageError(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")))
    except Exception as error:  # a fault of ours must not take the conversation away
        interactive.show_error(
            SegueError(f"/{line.split(maxsplit=1)[0][1:]} failed: {type(error).__name__}: {error}")
        )


def _parse(line: str) -> tuple[Command, list[str]]:
    name, _, rest = line.strip()[1:].partition(" ")
    command = _BY_NAME.get(name.lower())
    if command is None:
        near = get_close_matches(name.lower(), _BY_NAME, 1)
        hint = f"Did you mean /{near[0]}? " if near else ""
        raise UsageError(
            f"There is no command /{name}.", code="unknown_command", hint=f"{hint}/help tells what there is."
        )
    try:
        return command, shlex.split(rest)
    except ValueError:
        return command, rest.split()


def _action(command: Command) -> Action:
    from importlib import import_module  # noqa: PLC0415 - only a command needs it

    module, _, function = command.home.partition(":")
    action: Action = getattr(import_module(f"{__package__}.{module}"), function)
    return action

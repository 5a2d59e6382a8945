"""Who may call what: a mode, lists of patterns, and somebody to ask.

    plan        only tools that read
    ask         tools that read; everything else is asked for
    auto-edit   tools that read or edit files; everything else is asked for
    yolo        everything

A pattern is the name of a tool (`read_file`, `mcp__github__*`), with what it is called on in brackets if that matters:
`run_shell(git status)`, `edit_file(docs/*)`, `fetch_url(https://example.org/*)`. What is denied stays denied in every mode.
Where nobody can be asked, what would have to be asked for is refused. In a sandbox a command that only looks needs no
question; where a sandbox is wanted and cannot be had, a pattern allows no command. A deny list is a reminder, not a
sandbox: what holds a program that may run is `segue.tools.sandbox`.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
import shlex
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final, get_args

from msgspec import Struct

from segue.errors import UsageError
from segue.text.url_patterns import matches_url
from segue.tools.definition import PendingApproval
from segue.tools.read_only_commands import RUNNERS, only_reads, starts_another

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from segue.conversation.blocks import ToolCall
    from segue.events import Decision
    from segue.tools.definition import Effect, Tool


# What a shell would make of a command line, as far as permission depends on it. To allow, a command must be simple: one program
# and its arguments, nothing that starts, feeds or redirects another. To deny, every piece that could be a command counts. Both err
# on the side of asking.
_BARE: Final = re.compile(r"[\w\-./:=,@%+~^\[\]?* \t#]+")
"""Outside quotes: nothing that ends a command, expands to one, or escapes what follows."""
_SINGLE: Final = re.compile(r"'[^'\x00-\x08\x0a-\x1f\x7f]*'")
_DOUBLE: Final = re.compile(r'"[^"$`\\!\x00-\x08\x0a-\x1f\x7f]*"')
_PIECES: Final = re.compile(r"[;&|<>(){}`\n\r\x00]|\$\(")
_ASSIGNMENT: Final = re.compile(r"\w+=\S*\s+")


def is_simple(command: str) -> bool:
    """Whether the command runs one program, whatever is in its quotes."""
    at = 0
    while at < len(command):
        found = _BARE.match(command, at) or _SINGLE.match(command, at) or _DOUBLE.match(command, at)
        if found is None:
            return False
        at = found.end()
    return bool(command.strip())


def is_injected(command: str) -> bool:
    """Whether a simple command makes a known program run something else: `git -c alias.x='!rm x' x`."""
    return starts_another(_words(command))


def pieces(command: str) -> list[str]:
    """Everything in the command that might be a command of its own, quoted or not, as written and without quotes."""
    found = [command.strip(), *(piece.strip() for piece in _PIECES.split(command))]
    # Quotes hide a command from its name, and whole commands stand in quotes: sh -c "rm -r x".
    found += [piece.strip() for part in re.split(r"[\"']", command) for piece in _PIECES.split(part)]
    found += [" ".join(words) for piece in found if (words := _words(piece))]
    found += [_ASSIGNMENT.sub("", piece) for piece in found]
    found += [piece.removeprefix(first).lstrip() for piece in found if (first := _wrapper(piece))]
    return [piece for piece in dict.fromkeys(found) if piece]


def _wrapper(piece: str) -> str:
    """The first word where it only runs the others."""
    first = piece.partition(" ")[0]
    return first if first in RUNNERS else ""


def _words(piece: str) -> list[str]:
    try:
        words = shlex.split(piece)
    except ValueError:
        return []
    if words and "/" in words[0]:
        words[0] = words[0].rpartition("/")[2]
    return words


Mode: TypeAlias = Literal["ask", "auto-edit", "yolo", "plan"]
AskUser: TypeAlias = "Callable[[ToolCall, Tool], Awaitable[Decision]]"

_FREE: Final[dict[Mode, frozenset[Effect]]] = {
    "plan": frozenset({"read"}),
    "ask": frozenset({"read"}),
    "auto-edit": frozenset({"read", "edit"}),
    "yolo": frozenset({"read", "edit", "run", "fetch", "other"}),
}
_MAX_VALUES: Final = 10_000
_MAX_JUDGED: Final = 20_000
_MAX_PATH: Final = 4_096
"""Characters that are looked at: judging must not take longer than running."""
_SUBJECT: Final[dict[Effect, str]] = {"read": "path", "edit": "path", "run": "command", "fetch": "url"}
"""The argument that holds what a tool of this effect is called on."""
_HOST: Final = re.compile(r"https?://[\w.:\[\]-]+(?=[/?#]|$)")
"""Of an address that stands for itself in a pattern."""


@final
class Pattern(Struct, frozen=True):
    """One line of an allow or deny list."""

    tool: str
    subject: str | None = None
    """`None`: whatever it is called on."""
    exact: bool = False
    """Nothing in the subject stands for anything else."""

    def allows(self, call: ToolCall, tool: Tool) -> bool:
        """Narrowly: a command only if it is simple, a path as it is after all its dots are resolved."""
        if not fnmatchcase(call.name, self.tool):
            return False
        if self.subject is None:
            return True
        name, subject = _subject(call, tool)
        if not name:
            return False
        if self.exact or subject == self.subject:
            return subject == self.subject
        if name == "command":
            return is_simple(subject) and _matches(subject, self.subject) and not is_injected(subject)
        if name == "url":
            return matches_url(subject, self.subject)
        return _matches(posixpath.normpath(subject) if name == "path" else subject, self.subject)

    def is_exact(self, call: ToolCall, tool: Tool) -> bool:
        """Whether it names this very call, with nothing left open."""
        return self.subject is not None and _subject(call, tool)[1] == self.subject

    def denies(self, call: ToolCall, tool: Tool) -> bool:
        """Widely: any piece of a command, any end of a path; any text at all where nobody knows what a tool does."""
        if not fnmatchcase(call.name, self.tool):
            return False
        if self.subject is None:
            return True
        name, subject = _subject(call, tool)
        if name == "command" and len(subject) > _MAX_JUDGED:
            return True
        texts = list(_texts(call.arguments)) if tool.effect == "other" else [subject] if name else []
        return any(
            _matches(piece, self.subject) or matches_url(piece, self.subject)
            for text in texts
            for piece in _readings(text, tool.effect)
        )


def parse_pattern(text: str) -> Pattern:
    """`name` or `name(what it is called on)`."""
    name, bracket, rest = text.strip().partition("(")
    name = name.strip()
    if not name or (bracket and not rest.endswith(")")):
        raise UsageError(
            f'"{text}" is no pattern for tools.',
            code="bad_pattern",
            hint="Write the name of a tool, or name(pattern): run_shell(git status).",
        )
    subject = rest[:-1].strip() if bracket else None
    return Pattern(name, None if subject == "*" else subject)


class Approval:
    """Decides about calls for one session. The mode may change at any time; "always" holds until the end."""

    def __init__(
        self,
        mode: Mode = "ask",
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        ask: AskUser | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise UsageError(
                f'"{mode}" is no approval mode.',
                code="bad_approval_mode",
                hint=f"One of: {', '.join(get_args(Mode))}.",
            )
        self.mode: Mode = mode
        self.ask = ask
        self.always: list[Pattern] = []
        """What the user has allowed for the rest of the session."""
        self._allow = [parse_pattern(text) for text in allow]
        self._deny = [parse_pattern(text) for text in deny]
        self._one_at_a_time = asyncio.Lock()

    def allow_tool(self, name: str) -> None:
        """Every call of this tool may run."""
        self._allow.append(Pattern(_literal(name)))

    async def refusal(self, call: ToolCall, tool: Tool) -> str:
        """Why the call may not run, for the model to read; the empty text when it may."""
        settled = self._decided(call, tool)
        if settled is not None:
            return settled
        async with self._one_at_a_time:
            # An answer given while this call waited may have been about it too.
            settled = self._decided(call, tool)
            return await self._asked(call, tool) if settled is None else settled

    def _decided(self, call: ToolCall, tool: Tool) -> str | None:
        """What needs no question; None when somebody must be asked."""
        if any(pattern.denies(call, tool) for pattern in self._deny):
            return f'Denied: the rules of this session forbid this call of "{call.name}". Do without it.'
        if tool.effect in _FREE[self.mode]:
            return ""
        if self.mode == "plan":
            return f'Denied: while planning only tools that read may run, and "{call.name}" does more. Tell your plan.'
        sandbox = tool.sandbox
        if sandbox is not None and sandbox.confines and only_reads(_subject(call, tool)[1]):
            return ""
        patterns = [*self._allow, *self.always]
        if sandbox is not None and sandbox.is_missing:
            # A pattern was written for commands that are held; without that only a command that somebody has read counts.
            patterns = [pattern for pattern in patterns if pattern.is_exact(call, tool)]
        return "" if any(pattern.allows(call, tool) for pattern in patterns) else None

    async def _asked(self, call: ToolCall, tool: Tool) -> str:
        if self.ask is None:
            return (
                f'Denied: "{call.name}" needs the approval of the user, and nobody is there to give it. '
                "Do without it, or say what you would have done."
            )
        try:
            decision = await self.ask(call, tool)
        except PendingApproval:
            raise
        except Exception as error:  # whoever asks may fail in any way, and then nobody has agreed
            return f'Denied: the user could not be asked about "{call.name}" ({type(error).__name__}).'
        if decision == "always":
            self.always.append(_remembered(call, tool))
        if decision in ("once", "always"):
            return ""
        return f'Denied: the user does not want this call of "{call.name}". Ask what to do instead, or do without it.'


async def ask_later(call: ToolCall, tool: Tool) -> Decision:
    """For `Approval(ask=ask_later)`: nobody is asked here. The turn waits until somebody answers, perhaps in another process."""
    raise PendingApproval(f'"{call.name}" of {tool.name} waits for an answer.')


def own_functions_only(tools: Iterable[Tool]) -> Approval:
    """The default of a chat: functions that somebody wrote for it may run, and tools that read.

    Tools of other programs may not, nor those that declare that they edit files, run programs or use the network.
    """
    own = [tool.name for tool in tools if tool.effect == "other" and not tool.foreign]
    return Approval("ask", allow=own)


def _remembered(call: ToolCall, tool: Tool) -> Pattern:
    """What "always" is taken to mean: this very command, this host, else this tool."""
    name, subject = _subject(call, tool)
    if name == "command" or (tool.effect == "run" and not name):
        return Pattern(_literal(call.name), subject, exact=True)
    if name == "url":
        host = _HOST.match(subject)
        every_page = Pattern(_literal(call.name), f"{host[0]}/*") if host is not None else None
        return every_page or Pattern(_literal(call.name), subject, exact=True)
    return Pattern(_literal(call.name))


def _literal(text: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)


def _subject(call: ToolCall, tool: Tool) -> tuple[str, str]:
    """What a call is about, and the argument that holds it: its command, its address or its path."""
    if type(call.arguments) is not dict:
        return "", ""
    known = _SUBJECT.get(tool.effect)
    for name in ("command", "url", "path") if known is None else (known,):
        found = call.arguments.get(name)
        if isinstance(found, str):
            return name, found.strip()
    return "", ""


def _texts(value: object) -> Iterator[str]:
    """Every text in the arguments of a call."""
    waiting = [value]
    for _ in range(_MAX_VALUES):
        if not waiting:
            return
        held = waiting.pop()
        if isinstance(held, str):
            yield held.strip()
        elif isinstance(held, dict):
            waiting.extend(held.values())
        elif isinstance(held, list):
            waiting.extend(held)


def _readings(text: str, effect: Effect) -> Iterator[str]:
    """Everything a text may mean to a tool."""
    yield text
    if effect in ("run", "other"):
        yield from pieces(text[:_MAX_JUDGED])
    if effect in ("read", "edit", "other") and len(text) <= _MAX_PATH:
        # A path may be written from the root of the disk as well.
        steps = posixpath.normpath(text).split("/")
        yield from ("/".join(steps[start:]) for start in range(len(steps)))


def _matches(text: str, pattern: str) -> bool:
    # "git *" is about git also when it stands alone.
    return fnmatchcase(text, pattern) or (pattern.endswith(" *") and fnmatchcase(text, pattern[:-2]))

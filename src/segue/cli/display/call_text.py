"""A tool call as a person would write it: what it does, how it ended, and its output, folded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.conversation.blocks import status_of
from segue.text.terminal_text import sanitised
from segue.transcript.blocks.value_text import json_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import ToolCall, ToolResult

MOST_LINES: Final = 5
"""Lines of an output that are shown whole."""
_LONG: Final = 200
"""Characters from which on the size of arguments is shown while they arrive."""
_BEGINNING: Final = 2_000
_PATH: Final = re.compile(r'"path"\s*:\s*"([^"\\]+)"')
_EXIT_CODE: Final = re.compile(r"\n?\(exit code (-?\d+)\)\s*\Z")
_VERBS: Final = {
    "run_shell": ("command", "$", "$"),
    "read_file": ("path", "reads", "read"),
    "write_file": ("path", "writes", "wrote"),
    "edit_file": ("path", "edits", "edited"),
    "list_dir": ("path", "lists", "listed"),
    "search": ("pattern", "searches", "searched"),
    "fetch_url": ("url", "fetches", "fetched"),
}
"""Of the built-in tools: the argument that matters, and the verb while the call runs and after it."""
_COUNTED: Final = {"read_file": "line", "list_dir": "entry", "search": "hit", "fetch_url": "line"}
"""Tools whose output is for the model: people see how much it was."""
_REASONS: Final = {
    "cancelled_by_user": "stopped by you",
    "interrupted": "interrupted",
    "denied": "refused",
    "timed_out": "took too long",
}


@final
class CallEnd(Struct, frozen=True):
    """How a call ended, for people."""

    mark: str
    colour: str
    detail: str = ""
    """Beside the call."""
    output: tuple[str, ...] = ()
    """Below it, unfolded."""


def call_words(call: ToolCall, *, done: bool) -> str:
    """`$ make test`, `read server.py`, or `name key: value` for tools of others; on one line."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    if call.name in _VERBS and isinstance(subject := arguments.get(_VERBS[call.name][0], "."), str):
        verb = _VERBS[call.name][2 if done else 1]
        shown = f'"{subject}"' if call.name == "search" else subject
        return _one_line(f"{verb} {shown}")
    fields = ", ".join(argument_text(name, value) for name, value in arguments.items())
    return _one_line(f"{call.name} {fields or ('' if arguments else call.raw)}".strip())


def argument_text(name: str, value: object) -> str:
    return f"{name}: {value if isinstance(value, str) else json_of(value)}"


@final
class WrittenArguments(Struct, frozen=True):
    """What has arrived of the JSON of a call: its beginning and its size, so that each portion is read once."""

    beginning: str = ""
    size: int = 0
    lines: int = 0

    def plus(self, portion: str) -> WrittenArguments:
        beginning = (self.beginning + portion)[:_BEGINNING] if self.size < _BEGINNING else self.beginning
        return WrittenArguments(beginning, self.size + len(portion), self.lines + portion.count("\\n"))


def writing_words(name: str, written: WrittenArguments) -> str:
    """`writing new.py, 40 lines`, while a model writes a call."""
    path = _PATH.search(written.beginning)
    if name in ("write_file", "edit_file") and path is not None:
        return _one_line(f"writing {path[1]}" + (f", {written.lines} lines" if written.lines else ""))
    size = f" ({written.size} characters)" if written.size >= _LONG else ""
    return f"calling {name}{size}"


def call_end(call: ToolCall, result: ToolResult) -> CallEnd:
    """A command that ends with another code than 0 has failed, whatever its tool reports."""
    if result.reason is not None:
        why = _REASONS.get(result.reason, result.reason.replace("_", " "))
        return CallEnd("-", "dim", why, _lines(result.output))
    if result.error is not None:
        return CallEnd("✗", "red", "", _lines(result.error))
    text = text_of(result.output)
    if call.name == "run_shell" and (found := _EXIT_CODE.search(text)):
        lines = _lines(text[: found.start()])
        if found[1] == "0":
            return CallEnd("✓", "green", "", lines)
        return CallEnd("✗", "red", f"exit {found[1]}", lines)
    if status_of(result) == "pending":
        return CallEnd("?", "yellow")
    if call.name in _COUNTED:
        return CallEnd("✓", "green", _count(text, _COUNTED[call.name]))
    if call.name in ("write_file", "edit_file"):
        return CallEnd("✓", "green")
    shown = _lines(text) or (("an image",) if result.media else ())
    return CallEnd("✓", "green", "", shown)


def folded(lines: Sequence[str], *, failed: bool = False) -> list[str]:
    """The first line and the last two; of a failure the last ones, where the reason is."""
    if len(lines) <= MOST_LINES:
        return list(lines)
    first, last = (0, 3) if failed else (1, 2)
    hidden = f"… {len(lines) - first - last} lines · ctrl-o"
    return [*lines[:first], hidden, *lines[-last:]]


def _count(text: str, unit: str) -> str:
    if text.startswith("(") and "\n" not in text.strip():
        return sanitised(text.strip().strip("()"))
    count = len(text.splitlines())
    plural = {"entry": "entries"}.get(unit, f"{unit}s")
    return f"1 {unit}" if count == 1 else f"{count} {plural}"


def _lines(value: object) -> tuple[str, ...]:
    return tuple(sanitised(text_of(value)).expandtabs(4).strip("\n").splitlines())


def _one_line(text: str) -> str:
    return " ".join(sanitised(text).split())

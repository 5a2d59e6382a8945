"""The question whether a tool call may run: what exactly it would do, and what each answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.cli.display.file_changes import FileChange, change_of
from segue.cli.display.text_width import wrapped
from segue.cli.interactive.key_question import Choice
from segue.terminal_text import revealed
from segue.transcript.value_text import json_of

if TYPE_CHECKING:
    from pathlib import Path

    from segue.cli.display.terminal import Colours
    from segue.conversation.blocks import ToolCall
    from segue.tools.definition import Effect, Tool

ROWS_AROUND: Final = 9
"""Rows of the screen that a question needs for more than what it is about."""
_PORTION: Final = 4_000
_COLOURS: Final = {"+": "green", "-": "red", " ": "dim", "…": "dim"}
_FINAL: Final[frozenset[Effect]] = frozenset({"run", "other"})
"""A command, or a tool of which nobody knows what it does, cannot be taken back."""


@final
class ApprovalQuestion(Struct, frozen=True):
    """A sentence, and below it everything that would be agreed to."""

    title: str
    body: tuple[tuple[str, str], ...]
    """Lines and their colours, as long as they are."""
    always: str
    needs_enter: bool
    unit: str = "line"
    escape: str = "no, and stop"

    def lines(self, width: int, paint: Colours) -> list[str]:
        """The body on a screen of this width: nothing is cut off."""
        return [
            f"    {paint(colour, part) if colour else part}"
            for text, colour in self.body
            for portion in _portions(text)
            for part in wrapped(portion, width - 5, 2)
        ]

    def choices(self, *, seen: bool) -> list[Choice]:
        """What can be answered. Nothing can be allowed that was not on the screen."""
        shows = Choice("v", f"show all {len(self.body)} {self.unit}s")
        refuses = Choice("n", "no")
        if not seen:
            return [shows, refuses]
        return [
            Choice("y", "once", enter=self.needs_enter),
            Choice("a", self.always, enter=True),
            refuses,
            shows,
        ]


def question_about(call: ToolCall, tool: Tool, workspace: Path) -> ApprovalQuestion:
    """The whole command, the whole change of a file, or the arguments of any other call."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    command, url, path = (_text(arguments.get(name)) for name in ("command", "url", "path"))
    needs_enter = tool.effect in _FINAL
    name = revealed(call.name)
    if tool.effect == "run" and command:
        others = {key: value for key, value in arguments.items() if key != "command"}
        body = (*_plain_lines(command), *_argument_lines(others))
        return ApprovalQuestion("Run this command?", body, "always this exact command", needs_enter)
    if tool.effect == "edit" and path and (change := change_of(arguments, workspace / path)) is not None:
        verb = "Write the new file" if change.is_new else "Edit"
        size = f"+{change.added} −{change.removed}"
        title = f"{verb} {revealed(path)}?  {size} lines"
        return ApprovalQuestion(title, change_lines(change), f"every call of {name}", needs_enter)
    if tool.effect == "fetch" and url:
        return ApprovalQuestion("Fetch this address?", _plain_lines(url), "always this host", needs_enter)
    body = _argument_lines(arguments) if arguments else _plain_lines(call.raw)
    return ApprovalQuestion(f"Call {name}?", body, f"every call of {name}", needs_enter)


def change_lines(change: FileChange) -> tuple[tuple[str, str], ...]:
    """The lines of a change with their numbers, and their colours."""
    width = max((len(str(line.number)) for line in change.lines), default=1)
    return tuple(
        (
            f"{line.number or '':>{width}} {line.mark} {revealed(line.text).expandtabs(4)}".rstrip(),
            _COLOURS[line.mark],
        )
        for line in change.lines
    )


def _portions(line: str) -> list[str]:
    """Wrapping takes longer than linear time, so an endless line is wrapped in portions."""
    return [line[start : start + _PORTION] for start in range(0, len(line), _PORTION)] or [""]


def _argument_lines(arguments: dict[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(
        line
        for name, value in arguments.items()
        for line in _plain_lines(f"{name}: {value if isinstance(value, str) else json_of(value)}")
    )


def _plain_lines(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((revealed(line).expandtabs(4), "") for line in text.split("\n"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

"""Asks whether a tool call may run: shows exactly what it would do, and what "always" would mean."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Final

from segue.cli.display.sanitise import sanitised
from segue.cli.display.text_width import wrapped
from segue.cli.interactive.turn_view import call_text

if TYPE_CHECKING:
    from pathlib import Path

    from segue.cli.interactive.screen import Screen
    from segue.conversation.blocks import ToolCall
    from segue.tools.definition import Tool

MOST_LINES: Final = 24
"""Of a file change that are shown."""
_LARGEST: Final = 1_000_000
"""Bytes of a file that is compared with its new content."""


def show_question(screen: Screen, call: ToolCall, tool: Tool, workspace: Path) -> None:
    """The whole command, the changed lines of a file, or the arguments of any other call."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    command, url, path = (_text(arguments.get(name)) for name in ("command", "url", "path"))
    if tool.effect == "run" and command:
        _head(screen, call.name, "")
        _block(screen, command)
    elif tool.effect == "edit" and path and (changed := _change(arguments, workspace / path)) is not None:
        _head(screen, call.name, path)
        _show_change(screen, changed)
    elif tool.effect == "fetch" and url:
        _head(screen, call.name, url)
    else:
        screen.paragraph(f"? {call_text(call)}", "bold", 2)


def choices(call: ToolCall, tool: Tool) -> str:
    """The possible answers. What "always" means depends on the tool."""
    always = {"run": "always this command", "fetch": "always this host"}.get(
        tool.effect, f"always {call.name}"
    )
    return f"[y] once   [a] {sanitised(always)}   [n] no"


def _head(screen: Screen, name: str, subject: str) -> None:
    screen.paragraph(f"? {name} {subject}".rstrip(), "bold", 2)


def _block(screen: Screen, text: str) -> None:
    # A command is shown whole: nothing may be approved unseen.
    for line in sanitised(text).splitlines():
        for part in wrapped(line, screen.width - 5, 2):
            screen.line(f"    {part}")


def _change(arguments: dict[str, object], file: Path) -> list[str] | None:
    """The change as lines of a diff; None if the arguments have no known shape."""
    content, old, new = (arguments.get(name) for name in ("content", "old", "new"))
    if isinstance(old, str) and isinstance(new, str):
        return _difference(old, new)
    return _difference(_present(file), content) if isinstance(content, str) else None


def _present(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace") if file.stat().st_size <= _LARGEST else ""
    except OSError:
        return ""


def _difference(before: str, after: str) -> list[str]:
    lines = unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _show_change(screen: Screen, lines: list[str]) -> None:
    for line in lines[:MOST_LINES]:
        colour = {"+": "green", "-": "red"}.get(line[:1], "dim")
        screen.line("    " + screen.paint(colour, screen.shortened(sanitised(line).expandtabs(4), 4)))
    if len(lines) > MOST_LINES:
        screen.line(f"    … {len(lines) - MOST_LINES} more lines", "dim")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

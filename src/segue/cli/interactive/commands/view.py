"""/view, /doctor: the conversation as providers would receive it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from segue.cli.model_discovery import default_model_of
from segue.interop.convert import convert
from segue.interop.finding_text import fault_text, repair_text
from segue.terminal_text import sanitised

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

_LINES = 400
"""A longer request is for a file, not for a screen."""


async def view(interactive: InteractiveChat, words: list[str]) -> None:
    """The request in a dialect, formatted, with the repairs below it."""
    screen, name = interactive.screen, _target(interactive, words[0] if words else "")
    if name and "/" not in name:
        converted = convert(interactive.chat.export(), to=name, source="conversation")
        body, repairs = converted.body, converted.repairs
    else:
        request = interactive.chat.preview(name)
        body, repairs = request.body, request.repairs
    target = name or interactive.chat.model
    screen.paragraph(f"What {target} is sent · your next message takes the place of the last one", "bold", 2)
    lines = msgspec.json.format(body, indent=2).decode("utf-8", "replace").splitlines()
    for line in lines[:_LINES]:
        screen.line(screen.shortened(sanitised(line)))
    if len(lines) > _LINES:
        screen.line(f"… {len(lines) - _LINES} more lines. Write all of it: /dump FILE", "dim")
    for repair in repairs:
        screen.paragraph(f"≠ {repair.path}: {fault_text(repair)} → {repair_text(repair)}", "yellow", 2)
    if not repairs:
        screen.line("No repairs were needed.", "green")


def _target(interactive: InteractiveChat, name: str) -> str:
    """A provider stands for the model of it that spoke here last, else for its default one; dialects for themselves."""
    if name not in interactive.runtime.configured():
        return name
    for message in reversed(interactive.chat.conversation.messages):
        if message.origin is not None and message.origin.provider == name and message.origin.model:
            return f"{name}/{message.origin.model}"
    model = default_model_of(name, interactive.runtime.config)
    return f"{name}/{model}" if model else name


async def diagnose(interactive: InteractiveChat, words: list[str]) -> None:
    from segue.interop.doctor import examine  # noqa: PLC0415 - only this needs it
    from segue.interop.session_files import read_file  # noqa: PLC0415

    screen = interactive.screen
    source, lines = read_file(interactive.chat.export(), model="", to="")
    examination = examine(source, words or ["all"], model="", lines=lines)
    for diagnosis in examination.diagnoses:
        count = len(diagnosis.findings)
        mark = screen.paint("green", "✓") if not count else screen.paint("yellow", f"{count}")
        screen.line(f"  {diagnosis.target:<20} {mark}")
    screen.paragraph(
        "  Numbers: what a provider would refuse or read differently. segue repairs it before sending.",
        "dim",
        2,
    )

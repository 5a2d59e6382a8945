"""Commands that show the conversation as others would see it, or write it down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.cli.display.sanitise import sanitised
from segue.interop.convert import convert
from segue.interop.finding_text import fault_text, repair_text
from segue.interop.source import CONVERSATION
from segue.sessions.export import export_session

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

_LINES = 400
"""More of a request than this is for a file, not for a screen."""


async def view(interactive: InteractiveChat, words: list[str]) -> None:
    """The request in a dialect, pretty, with what was changed for it marked below."""
    name = words[0] if words else ""
    if name and "/" not in name:
        converted = convert(interactive.chat.export(), to=name, source="conversation")
        body, repairs = converted.body, converted.repairs
    else:
        sent = interactive.chat.preview(name)
        body, repairs = sent.body, sent.repairs
    lines = msgspec.json.format(body, indent=2).decode("utf-8", "replace").splitlines()
    for line in lines[:_LINES]:
        interactive.screen.line(interactive.screen.shortened(sanitised(line)))
    if len(lines) > _LINES:
        interactive.screen.line(f"… {len(lines) - _LINES} more lines: /dump FILE writes all of it", "dim")
    for repair in repairs:
        interactive.screen.paragraph(
            f"≠ {repair.path}: {fault_text(repair)} → {repair_text(repair)}", "yellow", 2
        )
    if not repairs:
        interactive.screen.line("Nothing had to be changed for it.", "green")


async def diagnose(interactive: InteractiveChat, words: list[str]) -> None:
    from segue.interop.doctor import examine  # noqa: PLC0415 - only this needs it
    from segue.interop.session_files import read_file  # noqa: PLC0415

    source, lines = read_file(interactive.chat.export(), model="", to="")
    examination = examine(source, words or ["all"], model="", lines=lines)
    for diagnosis in examination.diagnoses:
        count = len(diagnosis.findings)
        mark = (
            interactive.screen.paint("green", "✓")
            if not count
            else interactive.screen.paint("yellow", f"{count}")
        )
        interactive.screen.line(f"  {diagnosis.target:<20} {mark}")
    interactive.screen.paragraph(
        "  What is counted here would be refused as it stands; segue sends it mended.", "dim", 2
    )


async def export(interactive: InteractiveChat, words: list[str]) -> None:
    path = Path(words[0] if words else f"{interactive.chat.id}.json").expanduser()
    form = {".md": "markdown", ".jsonl": "journal"}.get(path.suffix, CONVERSATION)
    path.write_bytes(await export_session(interactive.runtime.store, interactive.chat.id, form))
    interactive.screen.line(f"  Written to {path}.")


async def dump(interactive: InteractiveChat, words: list[str]) -> None:
    body = interactive.chat.preview("").body
    path = Path(words[0] if words else f"{interactive.chat.id}-request.json").expanduser()
    path.write_bytes(body)
    interactive.screen.paragraph(
        f"  {len(body)} bytes written to {path}: the body of the next request, without the key.", indent=4
    )

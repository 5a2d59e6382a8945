"""Commands that show the conversation as others would see it, or write it down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.cli.display.sanitise import sanitised
from segue.interop.convert import convert
from segue.interop.finding_text import fault_of, remedy_of
from segue.interop.source import CONVERSATION
from segue.sessions.export import export_session

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import Talk

_LINES = 400
"""More of a request than this is for a file, not for a screen."""


async def view(talk: Talk, words: list[str]) -> None:
    """The request in a dialect, pretty, with what was changed for it marked below."""
    name = words[0] if words else ""
    if name and "/" not in name:
        converted = convert(talk.chat.export(), to=name, source="conversation")
        body, repairs = converted.body, converted.repairs
    else:
        sent = talk.chat.preview(name)
        body, repairs = sent.body, sent.repairs
    lines = msgspec.json.format(body, indent=2).decode("utf-8", "replace").splitlines()
    for line in lines[:_LINES]:
        talk.screen.say(talk.screen.shortened(sanitised(line)))
    if len(lines) > _LINES:
        talk.screen.say(f"… {len(lines) - _LINES} more lines: /dump FILE writes all of it", "dim")
    for repair in repairs:
        talk.screen.tell(f"≠ {repair.path}: {fault_of(repair)} → {remedy_of(repair)}", "yellow", 2)
    if not repairs:
        talk.screen.say("Nothing had to be changed for it.", "green")


async def diagnose(talk: Talk, words: list[str]) -> None:
    from segue.interop.doctor import examine  # noqa: PLC0415 - only this needs it
    from segue.interop.session_files import read_file  # noqa: PLC0415

    source, lines = read_file(talk.chat.export(), model="", to="")
    examination = examine(source, words or ["all"], model="", lines=lines)
    for diagnosis in examination.diagnoses:
        count = len(diagnosis.findings)
        mark = talk.screen.paint("green", "✓") if not count else talk.screen.paint("yellow", f"{count}")
        talk.screen.say(f"  {diagnosis.target:<20} {mark}")
    talk.screen.tell("  What is counted here would be refused as it stands; segue sends it mended.", "dim", 2)


async def export(talk: Talk, words: list[str]) -> None:
    path = Path(words[0] if words else f"{talk.chat.id}.json").expanduser()
    form = {".md": "markdown", ".jsonl": "journal"}.get(path.suffix, CONVERSATION)
    path.write_bytes(await export_session(talk.around.store, talk.chat.id, form))
    talk.screen.say(f"  Written to {path}.")


async def dump(talk: Talk, words: list[str]) -> None:
    body = talk.chat.preview("").body
    path = Path(words[0] if words else f"{talk.chat.id}-request.json").expanduser()
    path.write_bytes(body)
    talk.screen.tell(
        f"  {len(body)} bytes written to {path}: the body of the next request, without the key.", indent=4
    )

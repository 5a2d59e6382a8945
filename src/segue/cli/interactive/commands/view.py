"""/view, /doctor: the conversation as providers would receive it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from segue.cli.display.request_page import Mark, around_changes, from_message, request_page, summary
from segue.cli.display.turn_summary import counted
from segue.cli.model_choice import default_model_of
from segue.dialects.registry import DIALECTS
from segue.errors import UsageError
from segue.interop.convert import convert
from segue.providers.hosts.addresses import find_address
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat
    from segue.cli.interactive.views.screen import Screen
    from segue.conversation.message import Conversation

_LINES = 400
"""A longer request is for a file, not for a screen."""
_MESSAGES = 20
"""The last messages, which are shown unless all are asked for."""
_COLOURS: dict[Mark, str] = {"": "", "−": "red", "~": "yellow", "+": "green"}


async def view(interactive: InteractiveChat, words: list[str]) -> None:
    """`/view [NAME] [all|changes|raw]`: each message with what is changed for a model; the JSON itself with `raw`."""
    ways = [word.removeprefix("--") for word in words if word.removeprefix("--") in ("all", "changes", "raw")]
    names = [word for word in words if word.removeprefix("--") not in ways]
    if unknown := [word for word in names[1:] or names if word.startswith("-")] or names[1:]:
        raise UsageError(
            f'/view does not know "{unknown[0]}".', code="usage", hint="/view [NAME] [all|changes|raw]"
        )
    name = _target(interactive, names[0] if names else "")
    if name and "/" not in name:
        converted = convert(interactive.chat.export(), to=name, source="conversation")
        body, repairs, dialect = converted.body, converted.repairs, converted.to
    else:
        request = interactive.chat.preview(name)
        body, repairs, dialect = request.body, request.repairs, request.origin.dialect
    target = name or interactive.chat.model
    if "raw" in ways:
        _show_json(interactive.screen, target, body)
        return
    conversation = interactive.chat.conversation
    page = request_page(conversation, repairs, _sent_ids(conversation, dialect, body))
    count = len(conversation.messages)
    screen = interactive.screen
    size = f"{counted(count, 'message')}, {len(body):,} bytes"
    screen.gap()
    screen.paragraph(f"What {target} is sent · {size}", "bold", 2)
    screen.paragraph(summary(page) or "No repairs were needed.", "" if summary(page) else "green", 2)
    screen.line()
    if "changes" in ways:
        page = around_changes(page)
    elif "all" not in ways and count > _MESSAGES:
        earlier, page = page, from_message(page, count - _MESSAGES)
        hidden = sum(bool(line.mark) for line in earlier) - sum(bool(line.mark) for line in page)
        changes = f", {counted(hidden, 'change')}" if hidden else ""
        screen.line(f"… {count - _MESSAGES} earlier{changes} · /view all", "dim")
    address = find_address(target.partition("/")[0])
    for line in page:
        if line.mark:
            text = line.text.replace("the target", address.title) if address is not None else line.text
            screen.paragraph(f"    {line.mark} {text}", _COLOURS[line.mark], 6)
        else:
            screen.line(screen.shortened(line.text))
    screen.line()
    screen.paragraph(
        "The conversation itself is not changed · /view changes · /view raw: the JSON · /view NAME: another model",
        "dim",
        2,
    )


def _show_json(screen: Screen, target: str, body: bytes) -> None:
    screen.paragraph(f"What {target} is sent · your next message takes the place of the last one", "bold", 2)
    lines = msgspec.json.format(body, indent=2).decode("utf-8", "replace").splitlines()
    for line in lines[:_LINES]:
        screen.line(screen.shortened(sanitised(line)))
    if len(lines) > _LINES:
        screen.line(f"… {len(lines) - _LINES} more lines. Write all of it: /dump FILE", "dim")


def _sent_ids(conversation: Conversation, dialect: str, body: bytes) -> dict[str, str]:
    """Canonical call id → the id in the body. Empty if calls were dropped or added, so that none is paired wrongly."""
    here = [call for message in conversation.messages for call in message.calls]
    sent = DIALECTS[dialect].decode_request(msgspec.json.decode(body)).messages
    there = [call for message in sent for call in message.calls]
    if [call.name for call in here] != [call.name for call in there]:
        return {}
    return {call.id: other.native_id for call, other in zip(here, there, strict=True)}


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

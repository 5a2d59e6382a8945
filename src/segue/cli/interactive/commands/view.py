"""/view, /doctor: the conversation as providers would receive it, as a page or a list of repairs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.cli.display.call_text import call_words
from segue.cli.display.turn_summary import counted
from segue.cli.model_choice import default_model_of
from segue.conversation.blocks import Media, Text, ToolResult
from segue.dialects.registry import DIALECTS
from segue.errors import UsageError
from segue.interop.convert import convert
from segue.providers.hosts.addresses import find_address
from segue.text.terminal_text import sanitised
from segue.transcript.blocks.value_text import text_of
from segue.transcript.repairs import LOSSY, SENTENCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from segue.cli.interactive.interactive_chat import InteractiveChat
    from segue.cli.interactive.views.screen import Screen
    from segue.conversation.message import Conversation, Message
    from segue.transcript.repairs import Kind, Repair


Mark: TypeAlias = Literal["", "−", "~", "+"]
"""Not sent, rewritten, written by segue."""

MARK_WORDS: Final[dict[Mark, str]] = {"−": "not sent", "~": "rewritten", "+": "written by segue"}
_WRITTEN: Final[frozenset[Kind]] = frozenset(
    {
        "call_reconstructed",
        "call_closed",
        "call_recovered",
        "result_recovered",
        "reasoning_filled",
        "call_seal_filled",
        "opened",
        "bridged",
        "reply_filled",
    }
)
_NOT_SENT: Final[frozenset[Kind]] = (LOSSY - {"media_described"}) | {
    "duplicate_call_dropped",
    "blank_text",
    "option_not_sent",
    "hints_dropped",
}
_BEFORE: Final[frozenset[Kind]] = frozenset({"opened", "bridged"})
"""Stands before the message that it is noted at."""
_REPLACED_BY_THE_NEXT_MESSAGE: Final[Kind] = "ended"
_MESSAGE: Final = re.compile(r"messages\[(\d+)\]")
_CLAUSE: Final = re.compile(r"[:;] ")


@final
class PageLine(Struct, frozen=True):
    """One line: a message, one of its calls, or a change."""

    text: str
    mark: Mark = ""
    message: int = -1
    """Its position in the conversation; -1 for what belongs to none."""


def request_page(
    conversation: Conversation, repairs: Sequence[Repair], sent_ids: Mapping[str, str]
) -> list[PageLine]:
    """`sent_ids`: canonical call id → the id that the target is sent. Reasons are given once for each kind of change."""
    by_message, elsewhere = _placed(repairs, len(conversation.messages))
    explained: set[tuple[str, str]] = set()
    page: list[PageLine] = []
    for place, message in enumerate(conversation.messages):
        changes = by_message[place]
        page += (_change(repair, place, explained) for repair in changes if repair.kind in _BEFORE)
        page += _message(place, message, sent_ids)
        page += (_change(repair, place, explained) for repair in changes if repair.kind not in _BEFORE)
    page.append(PageLine("    (your next message)"))
    page += (_change(repair, -1, explained) for repair in elsewhere)
    return page


def summary(page: Iterable[PageLine]) -> str:
    """`− 3 not sent   ~ 2 rewritten   + 1 written by segue`; "" if nothing was changed."""
    counts: Counter[Mark] = Counter(line.mark for line in page)
    return "   ".join(f"{mark} {counts[mark]} {words}" for mark, words in MARK_WORDS.items() if counts[mark])


def around_changes(page: Sequence[PageLine]) -> list[PageLine]:
    """The changes, each with the line of the message that it belongs to."""
    changed = {line.message for line in page if line.mark}
    first = {line.message: place for place, line in reversed(list(enumerate(page))) if not line.mark}
    return [
        line
        for place, line in enumerate(page)
        if line.mark or (line.message >= 0 and line.message in changed and first[line.message] == place)
    ]


def from_message(page: Sequence[PageLine], first: int) -> list[PageLine]:
    """Without the messages before one."""
    return [line for line in page if line.message < 0 or line.message >= first]


def _placed(repairs: Iterable[Repair], count: int) -> tuple[dict[int, list[Repair]], list[Repair]]:
    by_message: dict[int, list[Repair]] = defaultdict(list)
    elsewhere = []
    for repair in repairs:
        found = _MESSAGE.match(repair.path)
        if repair.kind == _REPLACED_BY_THE_NEXT_MESSAGE:
            continue
        if found is not None and int(found[1]) < count:
            by_message[int(found[1])].append(repair)
        else:
            elsewhere.append(repair)
    return by_message, elsewhere


def _message(place: int, message: Message, sent_ids: Mapping[str, str]) -> Iterable[PageLine]:
    who = {"user": "note" if message.instruction else "you", "model": "model", "tool": "tool"}[
        message.speaker
    ]
    texts = [text for block in message.blocks if (text := _shown(block))]
    yield PageLine(f"{place + 1:>3} {who:<6} {texts[0] if texts else ''}".rstrip(), message=place)
    for text in texts[1:]:
        yield PageLine(f"           {text}", message=place)
    for call in message.calls:
        yield PageLine(f"           → {call_words(call, done=False)}", message=place)
        sent, native = sent_ids.get(call.id, ""), call.native_id or call.id
        if sent and sent != native:
            yield PageLine(f"call id {sanitised(native)} is {sanitised(sent)} here", "~", place)


def _shown(block: object) -> str:
    match block:
        case Text():
            return _beginning(block.text)
        case ToolResult(output=output, error=error):
            text = error if error is not None else text_of(output)
            return _beginning(text) or f"({(block.reason or 'no output').replace('_', ' ')})"
        case Media():
            return f"({block.kind}{', ' if block.mime else ''}{sanitised(block.mime)})"
        case _:
            return ""


def _beginning(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    more = f" … {len(lines)} lines" if len(lines) > 1 else ""
    return sanitised(lines[0]) + more if lines else ""


def _change(repair: Repair, place: int, explained: set[tuple[str, str]]) -> PageLine:
    sentence = SENTENCES[repair.kind]
    reason = repair.decision if repair.decision != sentence else ""
    if (repair.kind, reason) in explained:
        text = _CLAUSE.split(sentence, maxsplit=1)[0]
    else:
        explained.add((repair.kind, reason))
        text = f"{sentence} ({reason})" if reason else sentence
    where = "" if place >= 0 or not repair.path else f"{repair.path}: "
    mark: Mark = "+" if repair.kind in _WRITTEN else "−" if repair.kind in _NOT_SENT else "~"
    return PageLine(sanitised(f"{where}{text}"), mark, place)


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

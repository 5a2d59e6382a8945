"""A request as people read it: one line for each message, and every change marked in its place."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from msgspec import Struct

from segue.cli.display.call_text import call_words
from segue.conversation.blocks import Media, Text, ToolResult
from segue.text.terminal_text import sanitised
from segue.transcript.blocks.value_text import text_of
from segue.transcript.repairs import LOSSY, SENTENCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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

"""Which repair concerns which message of a body: paths count messages as segue keeps them, a wire may hold them otherwise."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Reasoning, Text, ToolCall, ToolResult
from segue.inspector.views.change_list import changes_of, sign_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segue.conversation.message import Conversation, Message
    from segue.transcript.repairs import Repair

Mark: TypeAlias = tuple[str, str]
"""Its sign and its code."""
_NUMBER: Final = re.compile(r"messages\[(\d+)\]")
_OPTIONS: Final = frozenset({"option_not_sent", "thinking_changed"})
_INSERTED: Final = frozenset({"bridged", "opened", "ended"})
_LONGEST: Final = 200


@final
class ItemMarks(Struct):
    """What was changed in one message of the client."""

    thoughts: Mark | None = None
    calls: dict[str, Mark] = {}
    """By the client's id of the call."""
    whole: Mark | None = None
    """Of what has no line of its own."""


NO_MARKS: Final = ItemMarks()


def joined(mark: Mark | None, more: Mark) -> Mark:
    """Two changes of one line: what is lost shows."""
    if mark is None or mark == more:
        return more
    codes = dict.fromkeys([*mark[1].split(", "), more[1]])
    return ("−" if "−" in (mark[0], more[0]) else mark[0]), ", ".join(codes)


@final
class RepairMarks:
    """The repairs of a request, by what they concern."""

    def __init__(
        self,
        repairs: Sequence[Repair],
        dialect: str,
        items: Sequence[tuple[int, list[Message]]],
        said: Conversation | None,
    ) -> None:
        """`items`: the client's messages, each with its number and what it says."""
        codes = {change.kind: change.code for change in changes_of(repairs, dialect)}
        self.client: dict[str, Mark] = {}
        self.provider: dict[str, Mark] = {}
        self.options: dict[str, Mark] = {}
        self.inserted: Mark = ("+", "added")
        self.closed: dict[str, Mark] = {}
        """Results that were put in, by the id of their call."""
        self.items: dict[int, ItemMarks] = {}
        """By the number of the client's message."""
        messages = said.messages if said is not None else ()
        numbers = item_numbers(messages, items)
        held = _calls_of(items)
        thinking = {
            number for number, read in items if any(type(block) is Reasoning for block in _blocks(read))
        }
        for repair in repairs:
            mark = sign_of(repair), codes.get(repair.kind, repair.kind)
            if repair.kind in _OPTIONS:
                self.options[repair.path.rpartition(".")[2]] = mark
            elif repair.kind in _INSERTED:
                self.inserted = mark
            elif repair.kind == "call_closed":
                for name in (*repair.emitted_result_ids, *repair.emitted_call_ids):
                    self.closed[name] = mark
            elif repair.kind == "id_replaced":
                self.provider.update(dict.fromkeys(repair.emitted_call_ids, mark))
                if (place := message_of(repair)) in numbers:
                    self.client.update(dict.fromkeys(_native_ids(messages[place], repair), mark))
            elif (place := message_of(repair)) in numbers:
                if repair.kind == "reasoning_dropped" or (
                    repair.kind == "seal_dropped" and not repair.call_ids
                ):
                    self._add_thoughts(
                        mark, [n for n in numbers[place] if n in thinking] or numbers[place][:1]
                    )
                else:
                    self._add(mark, numbers[place], _native_ids(messages[place], repair), held)

    def _add_thoughts(self, mark: Mark, numbers: Sequence[int]) -> None:
        """All thoughts of a message are sent, or none."""
        for number in numbers:
            one = self.items.setdefault(number, ItemMarks())
            one.thoughts = joined(one.thoughts, mark)

    def _add(self, mark: Mark, numbers: Sequence[int], names: Sequence[str], held: dict[str, int]) -> None:
        if names and all(held.get(name) in numbers for name in names):
            for name in names:
                one = self.items.setdefault(held[name], ItemMarks())
                one.calls = {**one.calls, name: joined(one.calls.get(name), mark)}
        else:
            one = self.items.setdefault(numbers[0], ItemMarks())
            one.whole = joined(one.whole, mark)


def message_of(repair: Repair) -> int:
    """The number in its path; -1 if it concerns no message."""
    found = _NUMBER.match(repair.path)
    return int(found[1]) if found is not None else -1


def item_numbers(
    messages: Sequence[Message], items: Sequence[tuple[int, list[Message]]]
) -> dict[int, list[int]]:
    """The client's messages that hold each message of segue: one may hold two, and two may hold one."""
    mine = [(_token(block), place) for place, one in enumerate(messages) for block in _blocks([one])]
    other = [(_token(block), number) for number, read in items for block in _blocks(read)]
    ours, theirs = [token for token, _ in mine], [token for token, _ in other]
    found: dict[int, list[int]] = {}
    same: Sequence[tuple[int, int, int]] = [(0, 0, len(ours))]
    if ours != theirs:
        same = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    for a, b, size in same:
        for n in range(size):
            numbers = found.setdefault(mine[a + n][1], [])
            if other[b + n][1] not in numbers:
                numbers.append(other[b + n][1])
    return found


def _blocks(messages: Iterable[Message]) -> list[Any]:
    """An instruction within the history is read as the system prompt where its message is read alone."""
    return [block for message in messages if not message.instruction for block in message.blocks]


def _token(block: Any) -> tuple[str, str]:
    """By which a block is known in two forms of a conversation. Ids are not: each wire has its own."""
    match block:
        case Text(text):
            return "text", text[:_LONGEST]
        case ToolCall():
            return f"call {block.name}", msgspec.json.encode(block.arguments).decode()[:_LONGEST]
        case ToolResult():
            return "result", str(block.output)[:_LONGEST]
        case _:
            return type(block).__name__, ""


def _calls_of(items: Sequence[tuple[int, list[Message]]]) -> dict[str, int]:
    return {
        block.native_id: number
        for number, read in items
        for block in _blocks(read)
        if type(block) is ToolCall
    }


def _native_ids(message: Message, repair: Repair) -> list[str]:
    """The client's ids of the calls that are concerned."""
    calls = [block for block in message.blocks if type(block) is ToolCall]
    return [call.native_id for call in calls if call.id in repair.call_ids]

"""Dropping whole units, or all but a note of long results, until the rest fits.

Everything here is pure. What is tried is a row of ever shorter conversations; the longest that fits is found by
halving, so a long history is counted a few times only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.chat.compaction.units import last_prompt, units_of
from segue.conversation.blocks import Block, Text, ToolResult, is_real
from segue.conversation.ids import next_ordinal
from segue.conversation.message import Conversation, Message
from segue.transcript.value_text import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

DROPPED_NOTE = "[Earlier messages were left out here to save space.]"
LONG = 400
"""Characters from which on a result is worth dropping."""
_EXCERPT = 160


def truncate(
    conversation: Conversation,
    fits: Callable[[Conversation], bool],
    *,
    head: int = 0,
    keep: Collection[int] = (),
) -> Conversation:
    """Drop units, the oldest first, as few as will do; `head` units at the front go last.

    The last prompt, the newest unit and the messages in `keep` always stay. If even then it does not fit, this is the
    shortest there is.
    """
    messages = conversation.messages
    units = units_of(messages)
    kept = {last_prompt(messages), *keep}
    loose = [number for number, unit in enumerate(units[:-1]) if kept.isdisjoint(unit)]
    order = [number for number in loose if number >= head] + [number for number in loose if number < head]

    def without(count: int) -> Conversation:
        return cut(conversation, units, set(order[:count]))

    return _longest(without, len(order), fits)


def cut(
    conversation: Conversation, units: Sequence[range], gone: Collection[int], note: str = DROPPED_NOTE
) -> Conversation:
    """The conversation without some units. A remark stands where something was; `note` is the first of them."""
    messages: list[Message] = []
    noted = False
    for number, unit in enumerate(units):
        if number not in gone:
            messages += conversation.messages[unit.start : unit.stop]
            noted = False
        elif not noted:
            messages.append(Message("user", (Text(note),), instruction=True))
            noted, note = True, DROPPED_NOTE
    return Conversation(tuple(messages), conversation.system, _minted(conversation))


def _minted(conversation: Conversation) -> int:
    """Also of a history that did not come through `append`: no id may be given again once its call is gone."""
    minted = conversation.minted
    if not minted:
        for message in conversation.messages:
            for call in message.calls:
                minted = next_ordinal(minted, call.id)
    return minted


def elide(
    conversation: Conversation, fits: Callable[[Conversation], bool], *, spare_newest: bool = True
) -> Conversation:
    """Leave a short note of long results, the oldest first, as few as will do."""
    messages = conversation.messages
    units = units_of(messages)
    until = units[-1].start if spare_newest and units else len(messages)
    order = [
        (place, position)
        for place, message in enumerate(messages[:until])
        for position, block in enumerate(message.blocks)
        if type(block) is ToolResult and _is_long(block)
    ]

    def without(count: int) -> Conversation:
        chosen: dict[int, set[int]] = {}
        for place, position in order[:count]:
            chosen.setdefault(place, set()).add(position)
        changed = tuple(
            _with_notes(message, chosen[place]) if place in chosen else message
            for place, message in enumerate(messages)
        )
        return structs.replace(conversation, messages=changed)

    return _longest(without, len(order), fits)


def _is_long(result: ToolResult) -> bool:
    if not is_real(result) or result.elided:
        return False
    return bool(result.media) or len(result.error or "") > LONG or len(text_of(result.output)) > LONG


def _with_notes(message: Message, positions: Collection[int]) -> Message:
    blocks: list[Block] = [
        _note_of(block) if type(block) is ToolResult and position in positions else block
        for position, block in enumerate(message.blocks)
    ]
    return structs.replace(message, blocks=tuple(blocks))


def _note_of(result: ToolResult) -> ToolResult:
    text = result.error if result.error is not None else text_of(result.output)
    media = f" and {len(result.media)} media" if result.media else ""
    note = f"[{len(text)} characters{media} were left out here to save space; call the tool again if needed.]"
    if text:
        note = f"{text[:_EXCERPT]}… {note}"
    failed = result.error is not None
    return structs.replace(
        result,
        output=None if failed else note,
        error=note if failed else None,
        media=(),
        complete=True,
        elided=True,
    )


def _longest(
    without: Callable[[int], Conversation], most: int, fits: Callable[[Conversation], bool]
) -> Conversation:
    """The first of ever shorter conversations that fits, else the last."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if fits(without(middle)):
            high = middle
        else:
            low = middle + 1
    return without(low)

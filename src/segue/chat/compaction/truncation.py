"""Dropping whole units, or all but a note of long results, until the rest fits.

Everything here is pure. What is tried is a row of ever shorter conversations; the longest that fits is found by
halving, so a long history is counted a few times only.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from msgspec import structs

from segue.chat.compaction.units import last_prompt, units_of
from segue.conversation.blocks import Block, Reasoning, Text, ToolResult, is_real
from segue.conversation.ids import next_ordinal
from segue.conversation.message import Conversation, Message
from segue.transcript.blocks.value_text import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

DROPPED_NOTE = "[Earlier messages were left out here to save space.]"
LONG = 400
"""Characters from which on a result is worth dropping."""
_EXCERPT = 160
LONG_REPLY = 4_000
"""Characters from which on a text of the model is worth shortening, where nothing else helps."""


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


def elide(conversation: Conversation, fits: Callable[[Conversation], bool]) -> Conversation:
    """Leave a short note of long results but the newest, the oldest first, as few as will do."""
    messages = conversation.messages
    units = units_of(messages)
    order = _long_results(messages, range(units[-1].start if units else 0))

    def without(count: int) -> Conversation:
        return _with_excerpts(conversation, order[:count], _EXCERPT)

    return _longest(without, len(order), fits)


def shorten_newest(conversation: Conversation, fits: Callable[[Conversation], bool]) -> Conversation:
    """Keep of each long result only so much of its beginning and its end that all of it fits.

    For results that nobody has read yet: a model that gets a mere note of one would only call the tool again.
    """
    order = _long_results(conversation.messages, range(len(conversation.messages)))
    sizes = [_EXCERPT]
    while sizes[-1] < max((len(_text_of(conversation, place)) for place in order), default=0):
        sizes.append(sizes[-1] * 3 // 2)
    sizes.reverse()

    def without(count: int) -> Conversation:
        return _with_excerpts(conversation, order, sizes[count - 1]) if count else conversation

    return _longest(without, len(sizes) if order else 0, fits)


def _long_results(messages: Sequence[Message], places: range) -> list[tuple[int, int]]:
    return [
        (place, position)
        for place in places
        for position, block in enumerate(messages[place].blocks)
        if type(block) is ToolResult and _is_long(block)
    ]


def _text_of(conversation: Conversation, place: tuple[int, int]) -> str:
    result = conversation.messages[place[0]].blocks[place[1]]
    return _result_text(result) if type(result) is ToolResult else ""


def _result_text(result: ToolResult) -> str:
    return result.error if result.error is not None else text_of(result.output)


def shorten_replies(conversation: Conversation, fits: Callable[[Conversation], bool]) -> Conversation:
    """Keep only start and end of what a model wrote at great length, the longest texts first, as few as will do."""
    messages = conversation.messages
    texts = [
        (len(block.text), place, position)
        for place, message in enumerate(messages)
        if message.speaker == "model"
        for position, block in enumerate(message.blocks)
        if isinstance(block, Text | Reasoning) and len(block.text) > LONG_REPLY
    ]
    order = [(place, position) for _, place, position in sorted(texts, reverse=True)]

    def without(count: int) -> Conversation:
        chosen = set(order[:count])
        changed = tuple(
            structs.replace(
                message,
                blocks=tuple(
                    _ends_of(block)
                    if isinstance(block, Text | Reasoning) and (place, position) in chosen
                    else block
                    for position, block in enumerate(message.blocks)
                ),
            )
            if any(where == place for where, _ in chosen)
            else message
            for place, message in enumerate(messages)
        )
        return structs.replace(conversation, messages=changed)

    return _longest(without, len(order), fits)


def _ends_of(block: Text | Reasoning) -> Text | Reasoning:
    """What is left has no seal: that is for the whole."""
    text, half = block.text, LONG_REPLY // 4
    note = f"\n[{len(text) - 2 * half} characters were left out here to save space.]\n"
    return structs.replace(block, text=f"{text[:half]}{note}{text[-half:]}", seal=None)


def _is_long(result: ToolResult) -> bool:
    if not is_real(result) or result.elided:
        return False
    return bool(result.media) or len(_result_text(result)) > LONG


def _with_excerpts(conversation: Conversation, chosen: Sequence[tuple[int, int]], size: int) -> Conversation:
    messages = list(conversation.messages)
    for place, position in chosen:
        blocks: list[Block] = list(messages[place].blocks)
        result = blocks[position]
        if type(result) is ToolResult and (result.media or len(_result_text(result)) > size):
            blocks[position] = _excerpt_of(result, size)
            messages[place] = structs.replace(messages[place], blocks=tuple(blocks))
    return structs.replace(conversation, messages=tuple(messages))


def _excerpt_of(result: ToolResult, size: int) -> ToolResult:
    text = _result_text(result)
    media = f" and {len(result.media)} media" if result.media else ""
    # Of a short excerpt only the beginning says anything.
    end = size // 3 if size > LONG else 0
    gone = max(0, len(text) - size)
    note = f"[{gone} characters{media} were left out here to save space; call the tool again if needed.]"
    if text:
        last = f" …{text[-end:]}" if end and gone else ""
        note = f"{text[: size - end]}… {note}{last}"
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
    return without(bisect_left(range(most), x=True, key=lambda count: fits(without(count))))

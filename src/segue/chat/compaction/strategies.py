"""What compaction does to a conversation, pure: its units, what is dropped, and the text that a model summarizes.

A unit must stay or go together: a call, its results, and all that lies between them. Pairs are found as the renderer
finds them, so a cut between two units never splits what it would have paired, however broken the history is.
Truncation drops whole units, or all but a note of long results, until the rest fits: what is tried is a row of ever
shorter conversations, and the longest that fits is found by halving, so a long history is counted a few times only.
In the text for a summary calls, results and media become words, so no rule about pairs applies to the request, and it
offers nothing to call.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, assert_never

from msgspec import structs

from segue.conversation.blocks import Block, Code, Media, Reasoning, Text, ToolCall, ToolResult, is_real
from segue.conversation.ids import next_ordinal
from segue.conversation.message import Conversation, Message, user
from segue.transcript.blocks.outcomes import WORDING, same_outcome
from segue.transcript.blocks.value_text import arguments_of, text_of
from segue.transcript.drafts import CallDraft
from segue.transcript.pairing import DraftBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from segue.conversation.blocks import Block
    from segue.conversation.interaction import Ledger


def units_of(messages: Sequence[Message]) -> list[range]:
    """The places of all messages, in order, in the smallest ranges that must stay together."""
    reach = list(range(len(messages)))
    for first, last in _spans(messages):
        reach[first] = max(reach[first], last)
    units: list[range] = []
    start = 0
    while start < len(messages):
        end = start
        at = start
        while at <= end:
            end = max(end, reach[at])
            at += 1
        units.append(range(start, end + 1))
        start = end + 1
    return units


def _spans(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """From the first to the last message that has to do with one call."""
    builder = DraftBuilder()
    builder.add(messages)
    for key, calls in builder.calls.items():
        # Calls that share an id could be taken for one another when only some of them are left.
        for family in [calls] if key else [[call] for call in calls]:
            places = [place for call in family for place in _places(call)]
            yield min(places), max(places)
    for note in builder.notes:
        if type(note.call) is CallDraft:
            places = [note.message, *_places(note.call)]
            yield min(places), max(places)


def _places(call: CallDraft) -> list[int]:
    return [call.message, *(result.message for result in call.results)]


def last_prompt(messages: Sequence[Message]) -> int | None:
    """The place of the last message that the user wrote: text, media or code."""
    return next(
        (
            index
            for index in range(len(messages) - 1, -1, -1)
            if messages[index].speaker == "user"
            and not messages[index].instruction
            and any(isinstance(block, (Text, Media, Code)) for block in messages[index].blocks)
        ),
        None,
    )


def with_ledger_results(conversation: Conversation, ledger: Ledger | None) -> Conversation:
    """The conversation with results as the ledger has them, so that what is summed up or dropped is the truth."""
    if not ledger:
        return conversation
    builder = DraftBuilder()
    builder.add(conversation.messages)
    changed: dict[int, list[Block]] = {}
    missing: dict[int, list[ToolResult]] = {}
    for key, calls in builder.calls.items():
        known = ledger.get(key) if len(calls) == 1 and calls[0].call.id == key else None
        if known is None or known.result is None or not is_real(known.result):
            continue
        for found in calls[0].results:
            if not found.result.elided and not same_outcome(found.result, known.result):
                blocks = changed.setdefault(found.message, list(conversation.messages[found.message].blocks))
                blocks[found.block] = known.result
        if not calls[0].results:
            missing.setdefault(calls[0].message, []).append(known.result)
    if not changed and not missing:
        return conversation
    messages: list[Message] = []
    for place, message in enumerate(conversation.messages):
        messages.append(
            structs.replace(message, blocks=tuple(changed[place])) if place in changed else message
        )
        if place in missing:
            messages.append(Message("tool", tuple(missing[place])))
    return structs.replace(conversation, messages=tuple(messages))


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


SYSTEM = "You sum up conversations between a user and an assistant that works with tools."
REQUEST = """\
Sum up the conversation above, so that another assistant can go on with the work without having seen it. Keep: what \
the user wants and decided, in their own words where wording matters; what was done and found out, with names, paths, \
numbers and identifiers; which tools were called and how that ended; what is still open. Leave out: greetings, \
repetitions, your own opinion. Write only the summary."""
_REQUEST_SHARE = 0.75
"""Share of its window that the request may take."""
_GAP = "\n[…]\n"
_SIZES = (20_000, 4_000, 1_000, 250)
"""Characters that are kept of one block, fewer and fewer until it fits."""


def request_for_summary(
    messages: Sequence[Message], count: Callable[[Conversation], int], window: int | None
) -> Conversation:
    """What to ask the summarising model, with room left for its answer."""
    if window is None:
        return _request(as_text(messages, _SIZES[0]))
    room = int(window * _REQUEST_SHARE)
    for size in _SIZES:
        text = as_text(messages, size)
        if count(_request(text)) <= room:
            return _request(text)
    # Still too long: the middle of it is dropped, as little as will do.
    sizes = range(1, len(text) + 1)
    fitting = bisect_left(sizes, x=True, key=lambda size: count(_request(_shorter(text, size))) > room)
    return _request(_shorter(text, fitting))


def _request(text: str) -> Conversation:
    return Conversation((user(f"<conversation>\n{text}\n</conversation>\n\n{REQUEST}"),), SYSTEM)


def as_text(messages: Sequence[Message], size: int) -> str:
    """A paragraph per message, with its speaker; of one block at most so many characters."""
    paragraphs = []
    for message in messages:
        who = "NOTE" if message.instruction else _NAMES[message.speaker]
        texts = [words for block in message.blocks if (words := _shorter(_block_text(block), size).strip())]
        if texts:
            paragraphs.append(f"{who}: " + "\n".join(texts))
    return "\n\n".join(paragraphs)


_NAMES = {"user": "USER", "model": "ASSISTANT", "tool": "TOOL"}


def _block_text(block: Block) -> str:
    match block:
        case Text():
            return block.text
        case Reasoning():
            return ""
        case Code():
            return block.code
        case Media():
            return _media(block)
        case ToolCall():
            return f"[called {block.name} with {arguments_of(block)[0]}]"
        case ToolResult():
            return f"[{block.name or 'a tool'} {_ending(block)}]"
        case _:
            assert_never(block)


def _media(media: Media) -> str:
    return f"[{media.kind}: {media.name or media.mime or 'without a name'}]"


def _ending(result: ToolResult) -> str:
    if result.reason is not None:
        return f"gave nothing: {WORDING[result.reason]}"
    if result.error is not None:
        return f"failed: {result.error}"
    shown = "".join(f" {_media(media)}" for media in result.media)
    return f"answered: {text_of(result.output)}{shown}"


def _shorter(text: str, size: int) -> str:
    """Beginning and end of a text that is longer than it may be; the end, which is newer, gets more."""
    if len(text) <= size:
        return text
    room = max(0, size - len(_GAP))
    start = room // 3
    return text[:start] + _GAP + (text[-(room - start) :] if room > start else "")

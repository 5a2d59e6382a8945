"""A conversation as plain text, for a model that writes its summary.

Calls, results and media become words, so no rule about pairs applies to the request, and it offers nothing to call.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, assert_never

from segue.conversation.blocks import Block, Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, user
from segue.transcript.blocks.outcomes import WORDING
from segue.transcript.blocks.value_text import arguments_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

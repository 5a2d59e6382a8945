"""What of a conversation must stay or go together: a call, its results, and all that lies between them.

Pairs are found as the renderer finds them, so a cut between two units never splits what it would have paired, however
broken the history is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import Code, Media, Text, is_real
from segue.conversation.message import Conversation, Message
from segue.transcript.blocks.outcomes import same_outcome
from segue.transcript.drafts import CallDraft
from segue.transcript.pairing import DraftBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.conversation.blocks import Block, ToolResult
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

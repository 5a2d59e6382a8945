"""Taking a foreign history in, however broken.

The messages come decoded, with the provider's raw ids as native ids. Each call gets a canonical id minted from its
position; its results are found by position and raw id together and follow it at once, duplicates included, so that
nothing is lost. A result whose call is gone gets one made up around it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from segue.conversation.blocks import Reasoning, status_of
from segue.conversation.ids import mint
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, Message
from segue.transcript.closure import settle
from segue.transcript.drafts import CallDraft, ModelDraft
from segue.transcript.fast import fast_paths
from segue.transcript.fast.fast_adopt import adopt_fast
from segue.transcript.pairing import DraftBuilder
from segue.transcript.policy import DEFAULT
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from segue.conversation.blocks import Block, ToolResult
    from segue.transcript.drafts import Draft, Note
    from segue.transcript.rules import Rules

REPAIRED = "repaired"
"""What a seal is made under if its history was repaired before: no transcript has this fingerprint."""


class Adoption(Struct, frozen=True):
    """A conversation of ours, and what was set right on the way in."""

    conversation: Conversation
    repairs: tuple[Repair, ...] = ()


def adopt(
    messages: Sequence[Message], *, system: str = "", dialect: str = "", rules: Rules | None = None
) -> Adoption:
    """Make a decoded history ours. `dialect` is the one it was written in, for the repairs' sake. `rules` are that dialect's:
    whether it is a repair to join messages of the model.
    """
    fast = adopt_fast(messages) if fast_paths.enabled() else None
    if fast is not None:
        return Adoption(Conversation(tuple(fast[0]), system, fast[1]))
    builder = DraftBuilder()
    builder.add(messages)
    minted = _mint(builder.drafts)
    altered = _first_alteration(builder.notes)
    adopted = [message for draft in builder.drafts for message in _messages(draft, altered)]
    repairs = tuple(
        Repair(
            note.kind,
            dialect,
            note.path,
            tuple(call.wire_id for call in note.concerned if type(call) is CallDraft),
            decision=note.decision,
        )
        for note in sorted(
            [*builder.notes, *_refused_messages(builder, rules)] if rules is not None else builder.notes,
            key=lambda note: note.message,
        )
    )
    empty = tuple(
        Repair("blank_text", dialect, f"messages[{index}]", decision="an empty message is dropped")
        for index, message in enumerate(messages)
        if message.speaker == "model" and not message.blocks
    )
    return Adoption(Conversation(tuple(adopted), system, minted), (*repairs, *empty))


def _refused_messages(builder: DraftBuilder, rules: Rules) -> list[Note]:
    """Messages that the wire's own provider would not have taken behind those that they were joined with."""
    return [
        *(builder.joined_to_text if not rules.calls_after_text else ()),
        *(builder.joined_to_calls if not rules.calls_after_calls else ()),
    ]


def _mint(drafts: Iterable[Draft]) -> int:
    """Give each call its canonical id, kept in the draft for both sides of the pair."""
    minted = 0
    for draft in drafts:
        if type(draft) is ModelDraft:
            for call in draft.calls:
                call.wire_id = mint(minted)
                minted += 1
    return minted


def _first_alteration(notes: Iterable[Note]) -> float:
    """The first message from which on the history is another one than was stored; infinite if it is the same."""
    places = [
        min([note.message, *(call.message for call in note.concerned if type(call) is CallDraft)])
        for note in notes
        if note.kind != "reasoning_dropped"
    ]
    return min(places, default=math.inf)


def _messages(draft: Draft, altered: float) -> Iterator[Message]:
    if type(draft) is not ModelDraft:
        yield Message("user", tuple(draft.blocks), instruction=draft.instruction)
        return
    blocks: list[Block] = []
    for item in draft.items:
        if type(item) is Reasoning and draft.message > altered:
            blocks.append(_of_another_prefix(item))
        elif type(item) is not CallDraft:
            blocks.append(item)
        else:
            native_id = item.call.native_id or item.call.id
            blocks.append(structs.replace(item.call, id=item.wire_id, native_id=native_id))
    if blocks:
        yield Message("model", tuple(blocks), draft.origin)
    results = tuple(_owned(found.result, call) for call in draft.calls for found in call.results)
    if results:
        yield Message("tool", results)


def _of_another_prefix(thought: Reasoning) -> Reasoning:
    """A thought that stands behind a repair: a seal that is bound to its prefix does not fit this one."""
    seal = thought.seal
    if seal is None or seal.made_under:
        return thought
    return structs.replace(thought, seal=structs.replace(seal, made_under=REPAIRED))


def _owned(result: ToolResult, call: CallDraft) -> ToolResult:
    return structs.replace(
        result,
        call_id=call.wire_id,
        name=result.name or call.call.name,
        native_id=result.native_id or result.call_id,
    )


def rebuild(conversation: Conversation) -> Ledger:
    """The ledger as far as the history alone shows it. An id that several calls share names none of them."""
    builder = DraftBuilder()
    builder.add(conversation.messages)
    known: list[Interaction] = []
    for calls in builder.calls.values():
        draft = calls[0]
        if len(calls) > 1 or not draft.call.id:
            continue
        answered = any(status_of(found.result) != "pending" for found in draft.results)
        known.append(Interaction(draft.call, settle(draft, None, DEFAULT, []) if answered else None))
    return Ledger(known)

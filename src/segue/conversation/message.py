"""Messages and who wrote them, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, structs

from segue.conversation.blocks import Block, Origin, Text, ToolCall
from segue.conversation.ids import mint, next_ordinal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Speaker: TypeAlias = Literal["user", "model", "tool"]


class Message(Struct, frozen=True, gc=False, omit_defaults=True):
    """What one speaker wrote at one time."""

    speaker: Speaker
    blocks: tuple[Block, ...]
    origin: Origin | None = None
    """The writer; every model message from a provider has one."""
    instruction: bool = False
    """A system note in the middle of a conversation: in the user's place, by the operator."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.blocks if type(block) is ToolCall])

    @property
    def text(self) -> str:
        return "".join([block.text for block in self.blocks if type(block) is Text])


def user(*blocks: Block | str) -> Message:
    return Message("user", _as_blocks(blocks))


def model(*blocks: Block | str, origin: Origin | None = None) -> Message:
    return Message("model", _as_blocks(blocks), origin)


def tool(*blocks: Block | str) -> Message:
    return Message("tool", _as_blocks(blocks))


def _as_blocks(blocks: Iterable[Block | str]) -> tuple[Block, ...]:
    return tuple(Text(block) if isinstance(block, str) else block for block in blocks)


class Conversation(Struct, frozen=True, gc=False, omit_defaults=True):
    """All messages, in order. `append` gives a new one; nothing ever changes in place."""

    messages: tuple[Message, ...] = ()
    system: str = ""
    minted: int = 0
    """How many call ids were ever minted here. Compaction keeps it, so no id is given twice."""

    def append(self, *messages: Message) -> Conversation:
        """Add messages; calls without an id get one from their position."""
        minted = self.minted
        given = {call.id for message in messages for call in message.calls}
        if given and not minted:
            # Messages that did not come through here: the ids they use are not counted yet.
            for message in self.messages:
                for call in message.calls:
                    minted = next_ordinal(minted, call.id)
        added: list[Message] = []
        for message in messages:
            settled, minted = mint_missing(message, minted, given)
            added.append(settled)
        return Conversation((*self.messages, *added), self.system, minted)


def mint_missing(message: Message, minted: int, given: Collection[str] = ()) -> tuple[Message, int]:
    """The message with an id for each call, none of which was given to another call by hand; and how many ids were
    minted by then. `given`: ids of calls in other messages that are appended together with this one."""
    calls = message.calls
    if all(call.id for call in calls):
        for call in calls:
            minted = next_ordinal(minted, call.id)
        return message, minted
    given = {*given, *(call.id for call in calls)}
    blocks: list[Block] = []
    for block in message.blocks:
        settled = block
        if type(block) is ToolCall:
            if not block.id:
                while mint(minted) in given:
                    minted += 1
                settled = structs.replace(block, id=mint(minted))
            minted = next_ordinal(minted, block.id)
        blocks.append(settled)
    return structs.replace(message, blocks=tuple(blocks)), minted

"""The conversations that this process answered last, whole. A store keeps replies only: what clients wrote is in no file.

Bounded by bytes, least recently used first. Nothing is held twice: the messages are those of the known histories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.cache_budget import SizedCache
from segue.conversation.blocks import Reasoning
from segue.conversation.message import Conversation, Message

if TYPE_CHECKING:
    from segue.conversation.blocks import Block

MAX_BYTES: Final = 16 << 20


@final
class RecentConversation(Struct, frozen=True, eq=False):
    """A conversation up to its last reply."""

    conversation: Conversation
    """As its client sent it, with the originals of our replies."""
    reply: Message
    whole: bool = True
    """False if a provider holds its beginning."""
    made: int = 0
    """The bytes that the model made of it."""

    def shown(self) -> tuple[Conversation, int]:
        """What its client may see, and how many thoughts that leaves out: they belong to the provider's account."""
        messages = (*self.conversation.messages, self.reply)
        thoughts = sum(type(block) is Reasoning for message in messages for block in message.blocks)
        shown = tuple([_without_thoughts(message) for message in messages])
        return structs.replace(
            self.conversation, messages=tuple([message for message in shown if message.blocks])
        ), thoughts


def _without_thoughts(message: Message) -> Message:
    blocks = tuple([_unsealed(block) for block in message.blocks if type(block) is not Reasoning])
    return structs.replace(message, blocks=blocks)


def _unsealed(block: Block) -> Block:
    """Without seals, also those of its own wire."""
    sealed = getattr(block, "seal", None) is not None
    return structs.replace(block, extra=None, **({"seal": None} if sealed else {}))


def _size_of(reply: Message) -> int:
    """The bytes of what a model wrote, thought and showed."""
    return sum([len(getattr(block, name, "")) for block in reply.blocks for name in ("text", "data")])


@final
class RecentConversations(SizedCache[tuple[str, str], RecentConversation]):
    """Of all callers: by caller and id. The ids are short, so that two callers may have the same."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        super().__init__(most)

    def keep_last(self, caller: str, conversation_id: str, recent: RecentConversation, size: int) -> None:
        """`size`: the bytes of its last request. What the model made is counted beside it: an image is asked for in a few words,
        and not every client sends it back, but the originals of our replies stay."""
        before = self.get((caller, conversation_id))
        made = _size_of(recent.reply) + (before.made if before is not None else 0)
        self.keep((caller, conversation_id), structs.replace(recent, made=made), size + made)

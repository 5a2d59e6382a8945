"""The conversations that this process answered last, whole. A store keeps replies only: what clients wrote is in no file.

Bounded by bytes, least recently used first. Nothing is held twice: the messages are those of the known histories.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.cache_budget import CacheBudget
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
class RecentConversations:
    """Of all callers. The ids are short, so that two callers may have the same."""

    budget: CacheBudget

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._held: OrderedDict[tuple[str, str], tuple[RecentConversation, int, int]] = OrderedDict()
        self.held = 0
        CacheBudget(max_bytes).share(recent=self)

    def keep(self, caller: str, conversation_id: str, recent: RecentConversation, size: int) -> None:
        """`size`: the bytes of its last request. What the model made is counted beside it: an image is asked for in a few words,
        and not every client sends it back, but the originals of our replies stay."""
        key = caller, conversation_id
        made = self._drop(key) + _size_of(recent.reply)
        if size + made > self.budget.most:
            return
        self._held[key] = recent, size, made
        self.held += size + made
        self.budget.fit()

    def drop_oldest(self) -> None:
        self._drop(next(iter(self._held)))

    def get(self, caller: str, conversation_id: str) -> RecentConversation | None:
        held = self._held.get((caller, conversation_id))
        return held[0] if held is not None else None

    def _drop(self, key: tuple[str, str]) -> int:
        """The bytes that the model made of it."""
        _, size, made = self._held.pop(key, (None, 0, 0))
        self.held -= size + made
        return made

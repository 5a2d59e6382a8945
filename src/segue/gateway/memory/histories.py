"""Histories that clients sent a moment ago, with their originals: the next request of a conversation repeats them.

What was found out about a message holds for as long as it and all before it return unchanged, so only new ones cost
anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, final

from msgspec import Struct

from segue.cache_budget import SizedCache
from segue.conversation.message import Message
from segue.gateway.memory.fingerprints import HistoryFingerprints
from segue.gateway.memory.replies import RememberedReply

_NEAR: Final = 4
"""So many lengths are tried at once."""

ReturnedReplies: TypeAlias = Mapping[tuple[str, str], Mapping[int, Message]]
"""By their makers, which are a provider and its model, and by the indexes of messages."""
HistoryKey: TypeAlias = tuple[str, str, int]
"""The caller, the client's own name for the conversation or its session, and a hash of how the conversation begins."""


@final
class Maker(NamedTuple):
    """Where a reply came from."""

    dialect: str
    provider: str
    native: bool
    """Whether its calls reached the client under the provider's own ids."""


@final
class Originals(Struct, frozen=True):
    """A history with the originals of its replies, and what is known of it."""

    messages: tuple[Message, ...]
    fingerprints: HistoryFingerprints
    """Of the messages as the client sent them."""
    replies: dict[int, RememberedReply] = {}
    """Index of a message → the reply that it was."""
    last: RememberedReply | None = None
    """The reply of the last model message; None if it is not remembered."""
    known: int = 0
    """So many messages from the start were known from the conversation's last request."""
    failed: bool = False
    """Whether the store could not be read, so that replies may be missing."""
    call_ids: frozenset[str] = frozenset()
    """Of all calls in the history, as the client has them; perhaps also of some that it has dropped."""
    has_images: bool = False
    makers: frozenset[Maker] = frozenset()
    """Of all replies that are remembered."""
    returned: ReturnedReplies = {}
    """The replies as the client returned them, where it got the bytes of their own provider: in this form that has got them back
    before another one was asked."""

    @property
    def fingerprint(self) -> bytes:
        """Of all messages as the client sent them: `before` for the reply to come."""
        return self.fingerprints.whole


@final
class KnownHistory(Struct, frozen=True, eq=False):
    """A history that a client sent, with all that was found out about it."""

    sent: tuple[Message, ...]
    """As they came."""
    images: tuple[int, ...]
    """Indexes of messages that show an image."""
    originals: Originals

    def common(self, given: tuple[Message, ...]) -> int:
        """With how many of these messages the history begins."""
        known = self.sent
        most = min(len(known), len(given))
        try:
            # Mostly all return, or all but the last, from which a mark has gone: found without a loop over all of them.
            for count in range(most, max(most - _NEAR, 0), -1):
                if known[:count] == given[:count]:
                    return count
            for at, (old, new) in enumerate(zip(known, given, strict=False)):
                if old != new:
                    return at
        except RecursionError:  # arguments of a call can be nested more deeply than can be compared
            return 0
        return most


@final
class KnownHistories(SizedCache[HistoryKey, KnownHistory]):
    """Of all callers."""

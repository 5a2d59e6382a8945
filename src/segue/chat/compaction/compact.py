"""Which strategy shortens a conversation, and what stands in when it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation

Strategy: TypeAlias = Literal["summarise", "middle_out", "truncate", "elide_results"]
Summarise: TypeAlias = Callable[[Conversation], Awaitable[str]]
"""Asks a model: the conversation is plain text, ends with the request for a summary, and offers no tools."""


@final
class Shortened(Struct, frozen=True, kw_only=True):
    """A shorter conversation."""

    conversation: Conversation
    strategy: Strategy
    """The one that did it: another than asked for where that failed."""
    tokens_before: int
    tokens_after: int
    dropped: int
    """Messages that are told no more, or only in the summary."""
    fits: bool
    """Whether it is within the budget. Where not, nothing that may be left out is left in."""
    problem: str = ""
    """Why the strategy asked for could not be used."""


def needs_compaction(tokens: int, limit: int | None, output: int | None = None, share: float = 0.85) -> bool:
    """Whether a request of so many tokens fills its share of what a window leaves for input."""
    raise NotImplementedError


async def compact(
    conversation: Conversation,
    ledger: Ledger | None,
    *,
    strategy: Strategy,
    budget: int,
    count: Callable[[Conversation], int],
    summarise: Summarise | None = None,
    window: int | None = None,
) -> Shortened | None:
    """Shorten to at most `budget` tokens, as `count` counts them; nothing if there is nothing to leave out.

    `window`: tokens that a request to `summarise` may have, where that is less than the whole conversation.
    """
    raise NotImplementedError

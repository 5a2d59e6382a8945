"""The turn: from a user's message to a reply without calls, as a generator of wishes.

It says what it wants, an `Ask` or `RunTools`, and is sent what came of it. It neither waits nor writes, and knows
nothing but the outcomes: the same outcomes lead to the same wishes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import Reason, ToolCall, ToolResult
from segue.conversation.events import Finish, Reply
from segue.conversation.message import Message
from segue.limits import MAX_EXCHANGES
from segue.sessions.entries import TurnFinish


@final
class Ask(Struct, frozen=True):
    """Ask the model what comes next: the n-th exchange of the turn, counted from 1."""

    number: int


@final
class RunTools(Struct, frozen=True):
    """Run these calls as one batch."""

    calls: tuple[ToolCall, ...]
    closed: Reason | None = None
    """Set when none of them may run: the reason that they all end with."""


Intent: TypeAlias = Ask | RunTools
Outcome: TypeAlias = Reply | Message
"""What came of a wish: the reply that was asked for, or the message of the results."""
Turn: TypeAlias = Generator[Intent, Outcome, TurnFinish]

_ENDS: Mapping[Finish, TurnFinish] = {
    "stop": "complete",
    "tool_calls": "complete",
    "length": "length",
    "content_filter": "content_filter",
    "cancelled": "cancelled",
    "error": "error",
}
_CUT: Mapping[Finish, Reason] = {
    "length": "provider_error",
    "content_filter": "provider_error",
    "error": "provider_error",
    "cancelled": "cancelled_by_user",
}
"""Replies that broke off. Their last call may be half of what was meant, so none of them runs."""


def take_turn(max_exchanges: int = MAX_EXCHANGES) -> Turn:
    for number in range(1, max_exchanges + 1):
        reply = yield Ask(number)
        assert type(reply) is Reply  # noqa: S101 - what was asked for
        calls = reply.message.calls
        if not calls:
            return _ENDS[reply.finish]
        results = yield RunTools(calls, _CUT.get(reply.finish))
        assert type(results) is Message  # noqa: S101 - what was asked for
        if reply.finish in _CUT:
            return _ENDS[reply.finish]
        if any(type(block) is ToolResult and block.reason == "cancelled_by_user" for block in results.blocks):
            return "cancelled"
    return "max_turns"

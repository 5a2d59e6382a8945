"""A whole foreign history taken in at once: each message from its own speaker, each call answered in its turn.

Nothing is decided here. Where any message is not plainly clean, the listener hears the whole history instead, which
would give the same conversation; but most histories are clean, and taking them in without drafts is several times as
fast. The constructors are written out for that reason alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.ids import mint
from segue.conversation.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block

_SHOWN: frozenset[type] = frozenset({Text, Media, Code})
_SAID: frozenset[type] = _SHOWN | {Reasoning}


def adopt_clean(messages: Sequence[Message]) -> tuple[list[Message], int] | None:
    """The adopted messages and how many ids they took, without a single repair; nothing if it may take one."""
    said: list[Message] = []
    minted = index = 0
    count = len(messages)
    while index < count:
        message = messages[index]
        blocks = message.blocks
        index += 1
        if not blocks:
            return None
        if message.speaker == "user":
            if not _SHOWN.issuperset(map(type, blocks)):
                return None
            said.append(Message("user", tuple(blocks), None, message.instruction))
            continue
        calls = _own_calls(message, minted, said) if message.speaker == "model" else None
        if calls is None:
            return None
        results: list[Block] = []
        while index < count and messages[index].speaker == "tool":
            if not _own_results(messages[index].blocks, calls, minted, results):
                return None
            index += 1
        if results:
            said.append(Message("tool", tuple(results)))
        elif index < count and messages[index].speaker == "model":
            return None  # it may go on with the same reply
        minted += len(calls)
    return said, minted


def _own_calls(message: Message, minted: int, said: list[Message]) -> list[ToolCall] | None:
    """The calls of a model's message as they came; nothing if it holds what is not a model's to say."""
    calls: list[ToolCall] = []
    owned: list[Block] = []
    for block in message.blocks:
        if type(block) is ToolCall:
            native_id = block.native_id or block.id
            call_id = mint(minted + len(calls))
            calls.append(block)
            owned.append(
                ToolCall(
                    call_id,
                    block.name,
                    block.arguments,
                    block.raw,
                    native_id,
                    block.seal,
                    block.reconstructed,
                )
            )
        elif type(block) in _SAID:
            owned.append(block)
        else:
            return None
    said.append(Message("model", tuple(owned), message.origin))
    return calls


def _own_results(blocks: Sequence[Block], calls: list[ToolCall], minted: int, results: list[Block]) -> bool:
    """Add results that answer the next calls, one by one; whether that is what they do.

    Such a result finds this very call however often its id was used before, or if both have none, as long as their
    names do not contradict each other.
    """
    if len(results) + len(blocks) > len(calls) or not blocks:
        return False
    for result in blocks:
        order = len(results)
        call = calls[order]
        if type(result) is not ToolResult:
            return False
        name, call_id = result.name, result.call_id
        if (call_id or result.native_id) != (call.id or call.native_id):
            return False
        if name != call.name and name and call.name:
            return False
        results.append(
            ToolResult(
                mint(minted + order),
                name or call.name,
                result.output,
                result.error,
                result.complete,
                result.media,
                result.native_id or call_id,
                result.reason,
            )
        )
    return True

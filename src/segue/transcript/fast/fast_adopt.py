"""The fast path of `adopt` (see fast_paths): each message from its own speaker, each call answered in order.

Most histories are clean, and adopting them without drafts is several times as fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.ids import MINTED
from segue.conversation.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block

_SHOWN_BLOCKS: frozenset[type] = frozenset({Text, Media, Code})
_MODEL_BLOCKS: frozenset[type] = _SHOWN_BLOCKS | {Reasoning}

_AskedCall: TypeAlias = tuple[str, str, str]
"""Of a call: the id it came with, its name, and its id here."""


def adopt_fast(messages: Sequence[Message], minted: int = 0) -> tuple[list[Message], int] | None:
    """The adopted messages and how many ids are minted by then, without a single repair; None if it may take one."""
    adopted: list[Message] = []
    start, count = 0, len(messages)
    while start < count:
        after = _adopt_next(messages, start, minted, adopted)
        if after is None:
            return None
        start, minted = after
    return adopted, minted


def _adopt_next(
    messages: Sequence[Message], start: int, minted: int, adopted: list[Message]
) -> tuple[int, int] | None:
    """Add a user's message, or a reply with its results; where the next message is, and how many ids are minted by then."""
    message = messages[start]
    index, count = start + 1, len(messages)
    if message.speaker == "user":
        blocks = message.blocks
        if not blocks or not _SHOWN_BLOCKS.issuperset(map(type, blocks)):
            return None
        adopted.append(message if message.origin is None else replace(message, origin=None))
        return index, minted
    calls = _own_reply(message, minted, adopted) if message.speaker == "model" else None
    if calls is None:
        return None
    results: list[Block] = []
    while index < count and (answer := messages[index]).speaker == "tool":
        if not _own_results(answer.blocks, calls, results):
            return None
        index += 1
    if results:
        adopted.append(Message("tool", tuple(results)))
    elif index < count and messages[index].speaker == "model":
        return None  # it may continue the same reply
    return index, minted + len(calls)


def _own_reply(message: Message, minted: int, adopted: list[Message]) -> list[_AskedCall] | None:
    """Add a model's message and return its calls; None if it holds blocks that are not a model's."""
    calls: list[_AskedCall] = []
    owned: list[Block] = []
    for block in message.blocks:
        if type(block) is ToolCall:
            call_id = f"{MINTED}{minted}"
            minted += 1
            calls.append((block.id or block.native_id, block.name, call_id))
            owned.append(_own_call(block, call_id))
        elif type(block) in _MODEL_BLOCKS:
            owned.append(block)
        else:
            return None
    if not owned:
        return None
    adopted.append(Message("model", tuple(owned), message.origin))
    return calls


def _own_call(call: ToolCall, call_id: str) -> ToolCall:
    # Here and below: the same but for the ids; `replace` takes half as long again.
    return ToolCall(
        call_id,
        call.name,
        call.arguments,
        call.raw,
        call.native_id or call.id,
        call.seal,
        call.reconstructed,
        call.extra,
    )


def _own_results(blocks: Sequence[Block], calls: list[_AskedCall], results: list[Block]) -> bool:
    """Add results that answer the next calls, one by one; whether that is what they do.

    Such a result finds this very call however often its id was used before, or if both have none, as long as their
    names do not contradict each other.
    """
    order = len(results)
    if not blocks or order + len(blocks) > len(calls):
        return False
    for result in blocks:
        if type(result) is not ToolResult:
            return False
        key, wanted, call_id = calls[order]
        raw_id, name, native_id = result.call_id, result.name, result.native_id
        if (raw_id or native_id) != key or (name != wanted and name and wanted):
            return False
        order += 1
        results.append(_own_result(result, call_id, wanted))
    return True


def _own_result(result: ToolResult, call_id: str, wanted: str) -> ToolResult:
    return ToolResult(
        call_id,
        result.name or wanted,
        result.output,
        result.error,
        result.complete,
        result.media,
        result.native_id or result.call_id,
        result.reason,
        result.elided,
        result.extra,
    )

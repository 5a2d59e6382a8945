"""The fast path of `adopt` (see fast_paths): each message from its own speaker, each call answered in order.

Most histories are clean, and adopting them without drafts is several times as fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.ids import mint
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
    index = 0
    count = len(messages)
    while index < count:
        message = messages[index]
        index += 1
        if message.speaker == "user":
            blocks = message.blocks
            if not blocks or not _SHOWN_BLOCKS.issuperset(map(type, blocks)):
                return None
            adopted.append(message if message.origin is None else replace(message, origin=None))
            continue
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
        minted += len(calls)
    return adopted, minted


def _own_reply(message: Message, minted: int, adopted: list[Message]) -> list[_AskedCall] | None:
    """Add a model's message and return its calls; None if it holds blocks that are not a model's."""
    calls: list[_AskedCall] = []
    owned: list[Block] = []
    for block in message.blocks:
        if type(block) is ToolCall:
            raw_id, name, native_id = block.id, block.name, block.native_id
            call_id = mint(minted)
            minted += 1
            calls.append((raw_id or native_id, name, call_id))
            # The same but for the ids; `replace` takes half as long again.
            owned.append(
                ToolCall(
                    call_id,
                    name,
                    block.arguments,
                    block.raw,
                    native_id or raw_id,
                    block.seal,
                    block.reconstructed,
                    block.extra,
                )
            )
        elif type(block) in _MODEL_BLOCKS:
            owned.append(block)
        else:
            return None
    if not owned:
        return None
    adopted.append(Message("model", tuple(owned), message.origin))
    return calls


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
        results.append(replace(result, call_id=call_id, name=name or wanted, native_id=native_id or raw_id))
    return True

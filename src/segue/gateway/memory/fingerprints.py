"""What a conversation looks like to its client, as a chain of digests: the place of a reply that has no call ids.

Only what every client returns counts: texts, calls, results, media. Reasoning, seals, instructions in the middle and
the system prompt do not: clients drop them, move them, or put the time of day into them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.json_safe import json_safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message

START: Final = b""
"""The fingerprint of no messages."""

_DIGEST_BYTES: Final = 16


def extend_fingerprint(before: bytes, messages: Iterable[Message]) -> bytes:
    """The fingerprint of the messages that `before` stands for, and of these after them."""
    for message in messages:
        if message.instruction:
            continue
        pieces = [piece for block in message.blocks if (piece := _visible(block))]
        if not pieces:
            continue
        # With its length before each piece, no two lists of pieces give the same text.
        text = f"{message.speaker}{''.join([f' {len(piece)}:{piece}' for piece in pieces])}"
        data = text.encode("utf-8", "surrogatepass")
        before = hashlib.blake2b(before + data, digest_size=_DIGEST_BYTES).digest()
    return before


def _visible(block: Block) -> str:
    """What a client surely returns of a block; empty if it may drop it."""
    match block:
        case Text():
            return block.text.strip()
        case Reasoning():
            return ""
        case ToolCall():
            return f"call {block.native_id or block.id} {block.name}"
        case ToolResult():
            return f"result {block.native_id or block.call_id} {_as_text(block.error or block.output)}"
        case Media():
            return f"media {block.mime} {block.data or block.url}"
        case Code():
            return block.code.strip()


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return repr(json_safe(value))

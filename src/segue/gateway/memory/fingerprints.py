"""What a conversation looks like to its client, as a chain of digests: the place of a reply that has no call ids.

Only what every client returns counts: texts, calls, results (by their ids, if these are unique), media. Reasoning, seals,
instructions in the middle and the system prompt do not: clients drop them, move them, or put the time of day into them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from segue.conversation.blocks import Code, Media, Text, ToolCall, ToolResult
from segue.conversation.json_safe import json_safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message

START: Final = b""
"""The fingerprint of no messages."""

_DIGEST_BYTES: Final = 16
_UNIQUE: Final = 20
"""An id of so many characters is random."""


def extend_fingerprint(before: bytes, messages: Iterable[Message]) -> bytes:
    """The fingerprint of the messages that `before` stands for, and of these after them."""
    for message in messages:
        before = next_fingerprint(before, message)
    return before


def next_fingerprint(before: bytes, message: Message) -> bytes:
    """The same for one message more."""
    if message.instruction:
        return before
    # With its length before each piece, no two lists of pieces give the same text.
    text = "".join([f" {len(piece)}:{piece}" for block in message.blocks if (piece := _visible(block))])
    if not text:
        return before
    data = before + f"{message.speaker}{text}".encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _visible(block: Block) -> str:
    """What a client surely returns of a block; empty if it may drop it."""
    # Much faster than a match, and this is done for each block of a history.
    if type(block) is Text:
        return block.text.strip()
    if type(block) is ToolCall:
        return f"call {block.native_id or block.id} {block.name}"
    if type(block) is ToolResult:
        return _result(block)
    if type(block) is Media:
        return f"media {block.mime} {block.data or block.url}"
    return block.code.strip() if type(block) is Code else ""


def _result(result: ToolResult) -> str:
    """A long id is given to one call only, and its result needs no other name: clients shorten old results."""
    name = result.native_id or result.call_id
    if len(name) >= _UNIQUE:
        return f"result {name}"
    return f"result {name} {_as_text(result.error or result.output)}"


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return repr(json_safe(value))

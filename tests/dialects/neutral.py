"""Decoded values without what is their wire's own, to compare what every wire has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec


def neutral_block(block: Block) -> Block:
    if type(block) is ToolResult:
        media = tuple(structs.replace(shown, extra=None) for shown in block.media)
        return structs.replace(block, extra=None, media=media)
    return structs.replace(block, extra=None)


def neutral_message(message: Message) -> Message:
    return structs.replace(message, blocks=tuple(neutral_block(block) for block in message.blocks))


def neutral_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(neutral_message(message) for message in messages)


def neutral_tools(tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    return tuple(structs.replace(tool, extra=None) for tool in tools)


def neutral_options(options: Options) -> Options:
    """With the fields that have no other place in `extra`, as if they were set for the target."""
    fields = options.own.fields if options.own is not None else {}
    return structs.replace(options, own=None, extra=fields or None)

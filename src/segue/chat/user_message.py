"""The message of a turn from what its caller gives: texts, blocks, paths and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from segue.chat.attachments import attachment
from segue.conversation.blocks import Block, Text
from segue.conversation.json_safe import encodable
from segue.conversation.message import Message
from segue.errors import UsageError

Content: TypeAlias = str | Path | bytes | Block
"""A text, a file by its path, the content of one, or a block."""


def user_message(content: tuple[Content, ...]) -> Message:
    """Raises UsageError where there is nothing to send, or a file cannot be attached."""
    blocks: list[Block] = [
        Text(encodable(part))
        if isinstance(part, str)
        else attachment(part)
        if isinstance(part, (Path, bytes))
        else part
        for part in content
    ]
    if not any(type(block) is not Text or block.text.strip() for block in blocks):
        raise UsageError(
            "The message is empty.", code="empty_prompt", hint="Give a text, an image or a document."
        )
    return Message("user", tuple(blocks))

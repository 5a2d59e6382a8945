"""Chunks of a stream that differ in one text: all around it is encoded once, so a chunk costs one short string."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "\x00text\x00"
"""Stands for the text in a chunk that becomes a template."""
_MARK = b'"\\u0000text\\u0000"'

json_text: Callable[[str], bytes] = msgspec.json.Encoder().encode
"""A text as JSON. It holds no line break, so it may stand in a frame or a line."""


def template(chunk: bytes) -> tuple[bytes, bytes]:
    """What stands before and behind the last `MARK` in an encoded chunk."""
    before, _, behind = chunk.rpartition(_MARK)
    return before, behind

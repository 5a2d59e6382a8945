"""Chunks of a stream that differ in one text: all around it is encoded once, so a chunk costs one short string."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import final

import msgspec
from msgspec import Struct

MARK = "\x00text\x00"
"""Stands for the text in a chunk that becomes a template."""
_MARK = b'"\\u0000text\\u0000"'

json_text: Callable[[str], bytes] = msgspec.json.Encoder().encode
"""A text as JSON. It holds no line break, so it may stand in a frame or a line."""


@final
class ChunkTemplate(Struct, frozen=True, gc=False):
    """What stands around the text of each chunk with more of one block."""

    before: bytes
    behind: bytes = b""
    tails: Iterator[bytes] | None = None
    """What stands behind them instead, one after another, on wires that count their chunks."""
    pieces: list[str] | None = None
    """Where the texts are collected, on wires that repeat them at the end."""


def template(chunk: bytes) -> ChunkTemplate:
    """What stands before and behind the last `MARK` in an encoded chunk."""
    before, _, behind = chunk.rpartition(_MARK)
    return ChunkTemplate(before, behind)

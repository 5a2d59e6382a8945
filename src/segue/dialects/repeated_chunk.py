"""Chunks of a stream that repeat the one before but for their text, read at a glance.

Most chunks are such: between them and the one before, only the text differs. All around it is compared as bytes, and only
the text is parsed, which takes a third of the time of parsing everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import msgspec

from segue.conversation.events import TextDelta
from segue.dialects.chunk_template import json_text

if TYPE_CHECKING:
    from segue.conversation.events import Event

_decode_text = msgspec.json.Decoder(str).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
_PATIENCE = 20
"""A server whose chunks had to be learned so often writes them all differently."""


@final
class RepeatedChunk:
    """What stood around the text of the last chunk. `counter` stands before a number that may differ as well."""

    __slots__ = ("_before", "_behind", "_counter", "_learned", "_tail", "index")

    def __init__(self, counter: bytes = b"") -> None:
        self._counter = counter
        self._before = self._behind = self._tail = b""
        self._learned = 0
        self.index = -1
        """The index of the block that the text belongs to."""

    def text(self, portion: bytes) -> str | None:
        """The text of a chunk that repeats the last one; None if it is anything else."""
        rest = portion.removeprefix(self._before)
        if len(rest) == len(portion):
            return None
        if self._counter:
            number, comma, rest = rest.partition(self._behind)
            if not comma or not number.isdigit():
                return None
        text = rest.removesuffix(self._tail)
        if len(text) == len(rest):
            return None
        try:
            return _decode_text(text)
        except _UNREADABLE:
            return None

    def learn(self, portion: bytes, events: list[Event]) -> None:
        """This portion was one whole chunk, and this is all that it reported."""
        self._before = b""
        event = events[0] if len(events) == 1 else None
        if type(event) is not TextDelta or self._learned > _PATIENCE:
            return
        self._learned += 1
        written = json_text(event.text)
        before, _, tail = portion.partition(written)
        if not tail or written in tail:
            return
        if self._counter:
            before, mark, behind = before.partition(self._counter)
            number, comma, behind = behind.partition(b",")
            if not mark or not number.isdigit():
                return
            before, self._behind = before + mark, comma + behind
        self._before, self._tail, self.index = before, tail, event.index

    def forget(self) -> None:
        """Something else came: the next chunk is read in full."""
        self._before = b""

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
    """What stood around the text of the last chunk. `counter` stands before a number that differs as well."""

    __slots__ = (
        "_around",
        "_before",
        "_behind",
        "_counter",
        "_learned",
        "_number",
        "_tail",
        "index",
        "texts",
    )

    def __init__(self, counter: bytes = b"") -> None:
        self._counter = counter
        self._number = 0
        self._before = self._behind = self._tail = b""
        """Before the text, or the number; between the number and the text; behind the text."""
        self._around = -1
        """How much of a chunk is not its text; -1 if none is expected."""
        self._learned = 0
        self.index = -1
        """The index of the block that the text belongs to."""
        self.texts: list[str] | None = None
        """Where the texts are collected."""

    def events(self, portion: bytes) -> list[Event] | None:
        """What a chunk reports that repeats the last one: more text; None if it is anything else."""
        # `startswith` takes twice as long as to remove the prefix.
        text = portion.removeprefix(self._before).removesuffix(self._tail)
        if len(portion) - len(text) != self._around:
            return None
        if self._counter:
            # Mostly the next number. To search for its end takes longer than to write what is expected.
            expected = b"%d%b" % (self._number, self._behind)
            number, counted = b"", text.removeprefix(expected)
            if len(text) - len(counted) != len(expected):
                number, _, counted = text.partition(self._behind)
                if not number.isdigit():
                    return None
                self._number = int(number)
            text = counted
            self._number += 1
        try:
            more = _decode_text(text)
        except _UNREADABLE:
            return None
        if not more:
            return []
        if self.texts is not None:
            self.texts.append(more)
        return [TextDelta(self.index, more)]

    def learn(self, portion: bytes, events: list[Event]) -> None:
        """This portion was one whole chunk, and this is all that it reported."""
        self.forget()
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
            if not mark or not comma or not number.isdigit():
                return
            self._number = int(number) + 1
            before, self._behind = before + mark, comma + behind
        self._before, self._tail, self.index = before, tail, event.index
        self._around = len(before) + len(tail)

    def forget(self) -> None:
        """Something else came: the next chunk is read in full."""
        self._around = -1

"""Chunks of a stream that repeat the one before but for their text, read at a glance.

Most chunks are such: between them and the one before, only the text differs. All around it is compared as bytes, and only
the text is parsed, which takes a third of the time of parsing everything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from segue.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta
from segue.dialects.chunk_template import json_text, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.events import Event

Delta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta
_decode_text = msgspec.json.Decoder(str).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
_PATIENCE = 20
"""A server whose chunks had to be learned so often writes them all differently."""


class RepeatedChunkDecoder(ABC):
    """Reads repeated chunks, and leaves all others to `_feed`."""

    def __init__(self) -> None:
        self._head = self._tail = b""
        """Before the text of the next chunk, and behind it."""
        self._around = -1
        """How much of the next chunk is not its text; -1 if none is expected."""
        self._kind: type[Delta] = TextDelta
        self._index = -1
        """The index of the block that the text belongs to."""
        self._learned = 0

    def feed(self, portion: bytes) -> list[Event]:
        # `startswith` takes twice as long as to remove the prefix.
        text = portion.removeprefix(self._head).removesuffix(self._tail)
        if len(portion) - len(text) == self._around:
            try:
                more = _decode_text(text)
            except _UNREADABLE:
                pass
            else:
                return [self._kind(self._index, more)] if more else []
        return self._feed(portion)

    @abstractmethod
    def _feed(self, portion: bytes) -> list[Event]:
        """Read a portion in full; then `_learn` it, or `_forget` what was learned."""

    def _learn(self, portion: bytes, events: list[Event]) -> None:
        """This portion was one whole chunk, and this is all that it reported."""
        self._forget()
        event = events[0] if len(events) == 1 else None
        if not (type(event) is TextDelta or type(event) is ReasoningDelta) or self._learned > _PATIENCE:
            return
        self._learned += 1
        written = json_text(event.text)
        head, _, tail = portion.partition(written)
        if tail and written not in tail:
            self._head, self._tail, self._around = head, tail, len(head) + len(tail)
            self._kind, self._index = type(event), event.index

    def _forget(self) -> None:
        """Something else came: the next chunk is read in full."""
        self._around = -1


class CountedChunkDecoder(RepeatedChunkDecoder):
    """The same for chunks that are counted: `counter` stands before a number that differs as well."""

    def __init__(self, counter: bytes) -> None:
        super().__init__()
        self._counter = counter
        self._before = self._behind = b""
        """What stands around the number in the head or the tail of the next chunk."""
        self._in_tail = True
        self._numbers: Iterator[bytes] = iter(())
        """Of the chunks after the next."""
        self._texts: list[str] = []
        """Where the texts are collected."""

    def feed(self, portion: bytes) -> list[Event]:
        text = portion.removeprefix(self._head).removesuffix(self._tail)
        if len(portion) - len(text) == self._around:
            try:
                more = _decode_text(text)
            except _UNREADABLE:
                pass
            else:
                counted = self._before + next(self._numbers) + self._behind
                if self._in_tail:
                    self._tail = counted
                else:
                    self._head = counted
                self._around = len(self._head) + len(self._tail)
                self._texts.append(more)
                return [self._kind(self._index, more)] if more else []
        return self.feed(portion) if self._is_renumbered(portion) else self._feed(portion)

    def _learn(self, portion: bytes, events: list[Event]) -> None:
        super()._learn(portion, events)
        if self._around < 0:
            return
        self._in_tail = self._counter in self._tail
        before, _, rest = (self._tail if self._in_tail else self._head).partition(self._counter)
        behind = rest.lstrip(b"0123456789")
        if behind == rest:
            self._forget()
        else:
            self._before, self._behind = before + self._counter, behind
            self._expect(int(rest.removesuffix(behind)) + 1)

    def _expect(self, number: int) -> None:
        self._numbers = numbers(number)
        counted = self._before + next(self._numbers) + self._behind
        if self._in_tail:
            self._tail = counted
        else:
            self._head = counted
        self._around = len(self._head) + len(self._tail)

    def _is_renumbered(self, portion: bytes) -> bool:
        """Whether a chunk bears another number than the next. It is then the one that is expected."""
        if self._around < 0:
            return False
        _, _, rest = portion.rpartition(self._before) if self._in_tail else portion.partition(self._before)
        number, _, _ = rest.partition(self._behind)
        expected = self._before + number + self._behind
        fits = portion.endswith(expected) if self._in_tail else portion.startswith(expected)
        if not fits or not number.isdigit() or expected in (self._head, self._tail):
            return False
        self._expect(int(number))
        return expected in (self._head, self._tail)

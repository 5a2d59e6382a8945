"""Chunks of a stream that repeat the one before but for their text, read at a glance.

Most chunks are such: between them and the one before, only the text differs, and perhaps a number, a time or a padding
that no reader looks at. All around is compared as bytes, and only the text is parsed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from segue.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta
from segue.dialects.streams.chunk_template import json_text

if TYPE_CHECKING:
    from segue.conversation.events import Event
    from segue.dialects.streams.sse import Frame

Delta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta
_decode_text = msgspec.json.Decoder(str).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
_PATIENCE = 20
"""A server whose chunks had to be learned so often writes them all differently."""
_VARYING = re.compile(rb'("obfuscation":"|"created_at":")([^"\\]*)')
"""Fields that differ from chunk to chunk and mean nothing to any reader here."""
_QUOTE, _BACKSLASH, _LF = b'"\\\n'


class RepeatedChunkDecoder(ABC):
    """Reads repeated chunks, and leaves all others to `_feed`."""

    def __init__(self) -> None:
        self._head = self._tail = b""
        """All before the text of the next chunk and all behind it, or what comes first of it if that varies."""
        self._around = -1
        """The length of both; -1 if nothing is expected, or if they vary."""
        self._leading: list[bytes] = []
        self._trailing: list[bytes] = []
        """What stands behind each varying value, before the text and behind it."""
        self._kind: type[Delta] = TextDelta
        self._index = -1
        """The index of the block that the text belongs to."""
        self._learned = 0

    def feed(self, portion: bytes) -> list[Event]:
        # `startswith` takes twice as long as to remove the prefix.
        text = portion.removeprefix(self._head).removesuffix(self._tail)
        if len(portion) - len(text) != self._around:
            text = self._varied(portion)
        if text:
            try:
                more = _decode_text(text)
            except _UNREADABLE:
                events = self._several(text)
                if events is not None:
                    return events
            else:
                return [self._kind(self._index, more)] if more else []
        return self._feed(portion)

    def _several(self, texts: bytes) -> list[Event] | None:
        """Repeated chunks that arrived together, from the first one's text to the last one's; None if they are anything else."""
        if self._around < 0:
            return None
        try:
            more = [_decode_text(text) for text in texts.split(self._tail + self._head)]
        except _UNREADABLE:
            return None
        return [self._kind(self._index, text) for text in more if text]

    @abstractmethod
    def _feed(self, portion: bytes) -> list[Event]:
        """Read a portion in full; then `_learn` it, or `_forget` what was learned."""

    def _varied(self, portion: bytes) -> bytes:
        """The text of a chunk in which known values vary; empty if anything else does."""
        rest = portion.removeprefix(self._head)
        if len(rest) == len(portion) or not (self._leading or self._trailing):
            return b""
        for literal in self._leading:
            value, _, rest = rest.partition(literal)
            if not _is_value(value):
                return b""
        if not self._trailing:
            text = rest.removesuffix(self._tail)
            return text if len(text) < len(rest) else b""
        text, found, rest = rest.partition(self._tail)
        for literal in self._trailing:
            value, found, rest = rest.partition(literal)
            if not _is_value(value):
                return b""
        return text if found and not rest else b""

    def _learn(self, portion: bytes, events: list[Event]) -> None:
        """This portion was one whole chunk, and this is all that it reported."""
        self._forget()
        event = events[0] if len(events) == 1 else None
        if not (type(event) is TextDelta or type(event) is ReasoningDelta) or self._learned > _PATIENCE:
            return
        self._learned += 1
        around = _around(portion, event.text)
        if around is None:
            return
        head, tail = self._head, self._tail = around
        self._around = len(head) + len(tail)
        self._kind, self._index = type(event), event.index
        if self._learned > 1:  # what was learned first does not fit any more
            self._head, *self._leading = _literals(head)
            self._tail, *self._trailing = _literals(tail)
            self._around = -1 if self._leading or self._trailing else self._around

    def _forget(self) -> None:
        """Something else came: the next chunk is read in full."""
        self._around = -1
        self._leading, self._trailing = [], []


class FrameRun:
    """Frames of one portion that repeat the last one but for its text."""

    __slots__ = ("_around", "_head", "_index", "_kind", "_tail")

    def __init__(self) -> None:
        self._head = self._tail = b""
        self._around = -1
        """The length of both; -1 if nothing is expected."""
        self._kind: type[Delta] = TextDelta
        self._index = -1

    def read(self, frames: list[Frame], at: int, events: list[Event]) -> int:
        """Add the events of the frames from `at` on, one for each, as long as they repeat the last one; how many did."""
        head, tail, around, kind, index = self._head, self._tail, self._around, self._kind, self._index
        start = at
        while around >= 0 and at < len(frames):
            frame = frames[at]
            text = frame.data.removeprefix(head).removesuffix(tail)
            if len(frame.data) - len(text) != around or frame.event:
                break
            try:
                more = _decode_text(text)
            except _UNREADABLE:
                break
            if not more:
                break
            events.append(kind(index, more))
            at += 1
        return at - start

    def begin(self, data: bytes, events: list[Event]) -> None:
        """A frame with this data was read in full, and this is all that it reported."""
        self._around = -1
        event = events[0] if len(events) == 1 else None
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            around = _around(data, event.text)
            if around is not None:
                self._head, self._tail = around
                self._around = len(self._head) + len(self._tail)
                self._kind, self._index = type(event), event.index


def _around(written: bytes, text: str) -> tuple[bytes, bytes] | None:
    """What stands before and behind this text; None if it is not written there, or there twice."""
    json = json_text(text)
    head, _, tail = written.partition(json)
    return (head, tail) if tail and json not in tail else None


def _is_value(value: bytes) -> bool:
    """Whether it is one plain value: nothing else can hide in it without a quote."""
    return value.isalnum() or not (_QUOTE in value or _BACKSLASH in value or _LF in value)


def _literals(side: bytes) -> list[bytes]:
    """What stands before, between and behind the varying values on one side of the text."""
    pieces = _VARYING.split(side)
    return [pieces[at] + (pieces[at + 1] if at + 1 < len(pieces) else b"") for at in range(0, len(pieces), 3)]

"""The model's name in forwarded replies: the one that the client asked for. All other bytes stay as they are."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, final

import msgspec

from segue.conversation.events import ReplyStarted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.conversation.events import Event
    from segue.dialects.caches.read_cache import ReadRequest


_EVENT_ENDS = (b"\n\n", b"\n\r\n")
_LINE_ENDS = (b"\n",)
_LONGEST_END = 3
_USUAL_NAME = 200
"""Bytes of a model's name; patterns of longer ones are not kept."""


@final
class ModelField:
    """Replaces the name in the frames of a stream; where the provider reports the same name, nothing is touched.

    Only whole frames leave: a name may be cut in two, and an error that ends the stream must not follow half a frame.
    """

    def __init__(self, field: str, asked: str, stream_type: str) -> None:
        self._ends = _EVENT_ENDS if stream_type.startswith("text/event-stream") else _LINE_ENDS
        self._key = b'"%b"' % field.encode()
        self._asked = asked
        self._needed: bool | None = None
        self._name: re.Pattern[bytes] | None = None
        self._replacement = b""
        self._rest: list[bytes] = []
        """Pieces of what has not left. They are put together once, however long a line takes to arrive."""
        self._tail = b""
        self._has_end = False

    def feed(self, portion: bytes, events: Sequence[Event]) -> bytes:
        if self._needed is None:
            self._look(events)
        if not self._rest and self._needed is not None and portion.endswith(self._ends):
            # Nearly all portions: whole frames, and on many wires only the first of all holds the name.
            return portion if not self._needed or self._key not in portion else self._renamed(portion)
        self._rest.append(portion)
        self._has_end = self._has_end or any(mark in self._tail + portion for mark in self._ends)
        self._tail = (self._tail + portion[-_LONGEST_END:])[-_LONGEST_END:]
        if self._needed is None or not self._has_end:
            return b""
        data = b"".join(self._rest)
        end = max(at + len(mark) if (at := data.rfind(mark)) >= 0 else 0 for mark in self._ends)
        self._rest, self._has_end = [data[end:]] if end < len(data) else [], False
        return self._renamed(data[:end])

    def frames(self, data: bytes) -> list[bytes]:
        """Whole frames one by one."""
        return re.findall(rb".+?(?:%b)" % b"|".join(self._ends), data, re.DOTALL)

    def close(self) -> bytes:
        rest, self._rest = b"".join(self._rest), []
        return self._renamed(rest)

    def _renamed(self, frames: bytes) -> bytes:
        if self._name is None or (last := frames.rfind(self._key)) < 0:
            return frames
        # To look for the name behind its last place takes a while.
        end = frames.find(b"\n", last)
        end = end if end >= 0 else len(frames)
        return self._name.sub(self._replacement, frames[:end]) + frames[end:]

    def _look(self, events: Sequence[Event]) -> None:
        started = next((event for event in events if type(event) is ReplyStarted), None)
        if started is None and not events:
            return
        reported = started.model if started is not None else ""
        self._needed = bool(reported) and reported != self._asked
        if self._needed:
            name = msgspec.json.encode(reported)
            pattern = _named if len(name) <= _USUAL_NAME else _named.__wrapped__
            self._name = pattern(self._key, name)
            self._replacement = b"\\1" + msgspec.json.encode(self._asked).replace(b"\\", b"\\\\")


@final
class WholeFrames:
    """The same for wires whose replies name no model and whose frames are no lines: whole frames leave as they came."""

    def __init__(self, cut: Callable[[bytes], tuple[list[bytes], bytes]]) -> None:
        self._cut = cut
        self._rest = b""

    def feed(self, portion: bytes, events: Sequence[Event]) -> bytes:
        del events
        frames, self._rest = self._cut(self._rest + portion)
        return b"".join(frames)

    def frames(self, data: bytes) -> list[bytes]:
        return self._cut(data)[0]

    def close(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest


def renamed(body: bytes, field: str, name: str, read: ReadRequest | None = None) -> bytes:
    """A JSON object with another value in one of its outermost fields, all others byte for byte.

    `read`: the body as it was read. It shows where a second field of that name could be; where there is none, and the body
    begins with the first, nothing is parsed.
    """
    if not field:  # replies of this wire name no model
        return body
    if read is not None and read.head:
        first = _first_text(field).match(body, 0, read.head)
        if first is not None and first[1] == msgspec.json.encode(read.fields.get(field)):
            key = b'"%b"' % field.encode()
            if body.find(key, first.end(), read.head) < 0 and read.tail.find(key) < 0:
                view = memoryview(body)  # a body is large: it is copied once, when all is joined
                return b"".join((view[: first.start(1)], msgspec.json.encode(name), view[first.end(1) :]))
    try:
        fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return body
    if field not in fields:
        return body
    written = msgspec.json.encode(name)
    if bytes(fields[field]) == written:
        return body
    return msgspec.json.encode({**fields, field: msgspec.Raw(written)})


@lru_cache(maxsize=64)
def _named(key: bytes, name: bytes) -> re.Pattern[bytes]:
    """A field that holds the name of a model; its first group is all before the name."""
    return re.compile(b"(" + re.escape(key) + rb"\s*:\s*)" + re.escape(name))


@cache
def _first_text(field: str) -> re.Pattern[bytes]:
    """The first field of an object, if it has this name and a text without escapes as its value."""
    return re.compile(rb'\s*\{\s*"' + re.escape(field.encode()) + rb'"\s*:\s*("[^"\\]*")')

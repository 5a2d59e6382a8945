"""Streams of replies, what several wires have in common: chunks that are all read alike, and events that are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

from segue.conversation.events import (
    ArgumentsDelta,
    Failed,
    Finished,
    ReasoningDelta,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import Usage
from segue.dialects.streams.chunk_template import json_text
from segue.dialects.streams.garbled_lines import read_garbled, reply_cut_off, reply_garbled
from segue.dialects.streams.repeated_chunk import RepeatedChunkDecoder
from segue.dialects.streams.sse import END

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.events import Event
    from segue.dialects.streams.chunk_template import ChunkTemplate
    from segue.errors import SegueError


class ChunkReader(ABC):
    """Reads one chunk of a reply after another, or a whole one, and reports what is in them."""

    __slots__ = ("_index", "_open", "failed", "over", "unreadable")
    chunk = "a chunk"
    """What one is called on this wire."""

    def __init__(self) -> None:
        self._index = -1
        self._open: Literal["", "text", "reasoning"] = ""
        """The kind of block that the next chunk may continue."""
        self.over = False
        self.failed = False
        """Whether it ended with an error: nothing behind it counts."""
        self.unreadable = reply_garbled(self.chunk)
        """The error that a chunk which cannot be read ends the reply with."""

    @abstractmethod
    def read(self, data: bytes, events: list[Event]) -> None: ...

    def _read_garbled(self, data: bytes, events: list[Event]) -> None:
        if not read_garbled(data, self.read, events):
            self._fail(self.unreadable, events)

    def end(self, events: list[Event]) -> None:
        """Nothing more comes: a reply that has no end broke off."""
        self._fail(reply_cut_off(), events)

    def _fail(self, error: SegueError, events: list[Event]) -> None:
        if not self.over:
            self.over = self.failed = True
            events.append(Failed(error))

    def _block(self, kind: Literal["text", "reasoning"]) -> int:
        """The index of the block that more of this kind belongs to."""
        if kind != self._open:
            self._index += 1
            self._open = kind
        return self._index

    def _new_block(self) -> int:
        """The index of a block that comes whole."""
        self._index += 1
        self._open = ""
        return self._index


class ChunkDecoder(RepeatedChunkDecoder):
    """A stream whose chunks are all read alike. `sole`: the one chunk that a portion is, if it is one; `cut`: all of them."""

    def __init__(
        self,
        reader: ChunkReader,
        sole: Callable[[bytes], bytes | None],
        cut: Callable[[bytes], list[bytes]],
    ) -> None:
        super().__init__()
        self._reader = reader
        self._sole = sole
        self._cut = cut

    def _feed(self, portion: bytes) -> list[Event]:
        events: list[Event] = []
        only = self._sole(portion) if not self._reader.failed else None
        if only is not None:
            self._reader.read(only, events)
            self._learn(portion, events)
            return events
        self._forget()
        self._read_all(self._cut(portion), events)
        return events

    def _read_all(self, chunks: list[bytes], events: list[Event]) -> None:
        for data in chunks:
            if self._reader.failed:
                break
            self._reader.read(data, events)

    def close(self) -> list[Event]:
        events: list[Event] = []
        self._reader.unreadable = reply_cut_off()  # of the last chunk, half may have come
        self._read_all(self._cut(END), events)
        self._reader.end(events)
        return events


class ChunkEncoder(ABC):
    """Events in, a provider's stream out: texts at once, and its end when it is closed, since counts may still come."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = ""
        self._started = ReplyStarted()
        self._usage = Usage()
        self._finished: Finished | None = None
        self._over = False
        self._text: ChunkTemplate | None = None
        self._thought: ChunkTemplate | None = None
        self._arguments: dict[int, ChunkTemplate] = {}
        """How more of a text, of a thought and of a call's arguments is written, once it is known."""

    def feed(self, event: Event) -> bytes:
        # Nearly all events are more text of one kind or another.
        if type(event) is TextDelta and self._text is not None:
            return self._text.before + json_text(event.text) + self._text.behind
        if type(event) is ReasoningDelta and self._thought is not None:
            return self._thought.before + json_text(event.text) + self._thought.behind
        if type(event) is ArgumentsDelta and (known := self._arguments.get(event.index)) is not None:
            return known.before + json_text(event.text) + known.behind
        return self._feed(event) if not self._over else b""

    def template(self, event: TextDelta | ReasoningDelta) -> ChunkTemplate | None:
        return self._text if type(event) is TextDelta else self._thought

    def close(self) -> bytes:
        if self._over:
            return b""
        self._over = True
        return self._ending()

    def _feed(self, event: Event) -> bytes:
        match event:
            case ReplyStarted(reply_id, model):
                self._started, self._id = event, reply_id
                self._model = self._model or model
                self._forget()
                return self._opening()
            case UsageReported(usage):
                self._usage = self._usage.updated(usage)
            case Finished():
                self._finished = self._finished or event
            case Failed(error):
                self._over = True
                self._forget()
                return self._failure(error)
            case _:
                return self._content(event)
        return b""

    def _forget(self) -> None:
        self._text = self._thought = None
        self._arguments.clear()

    def _opening(self) -> bytes:
        """What a stream begins with, before the model wrote anything."""
        return b""

    @abstractmethod
    def _content(self, event: Event) -> bytes:
        """What the model wrote."""

    @abstractmethod
    def _ending(self) -> bytes: ...

    @abstractmethod
    def _failure(self, error: SegueError) -> bytes: ...

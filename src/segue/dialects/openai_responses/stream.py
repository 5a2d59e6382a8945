"""Streamed replies of the Responses wire as events: items that grow, and a final state that holds all (RESP-60)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from segue.conversation.events import Failed, TextDelta
from segue.dialects.openai_responses import wire
from segue.dialects.openai_responses.errors import error_from
from segue.dialects.openai_responses.reply import ItemReader, ended, started
from segue.dialects.streams import sse
from segue.dialects.streams.garbled_lines import (
    UNREADABLE,
    check_encoding,
    is_other_type,
    read_garbled,
    reply_cut_off,
    reply_garbled,
)

if TYPE_CHECKING:
    from segue.conversation.events import Event

_decode_more = wire.MORE.decode
_decode_text = wire.MORE_TEXT.decode
_TEXT_HEAD = b"event: response.output_text.delta\ndata: "
_LF, _CR = b"\n\r"
_TYPES = frozenset(
    f"response.{event}"
    for event in (
        "created",
        "in_progress",
        "queued",
        "output_text.delta",
        "output_text.annotation.added",
        "refusal.delta",
        "function_call_arguments.delta",
        "reasoning_summary_text.delta",
        "reasoning_text.delta",
        "output_item.added",
        "output_item.done",
        "completed",
        "incomplete",
        "failed",
        "cancelled",
    )
) | {"error"}
"""Events that say something of the reply."""
_TEXT_AROUND = len(_TEXT_HEAD) + len(sse.END)


@final
class ReplyDecoder:
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        self._frames = sse.FrameDecoder()
        self._reader = ItemReader()
        self._places: dict[Any, Any] = {}
        """Item id → place, for items whose beginning or end was seen."""
        self._done: set[Any] = set()
        self._begun = False
        self._over = False
        self._closing = False
        self._item: int | None = None
        self._part: int | None = None
        """Item and part of the text that the next portion probably continues, with its index and pieces."""
        self._index = -1
        self._pieces: list[str] = []

    def feed(self, portion: bytes) -> list[Event]:
        # Nearly all portions are one frame with more of the same text.
        data = portion.removeprefix(_TEXT_HEAD).removesuffix(sse.END)
        if len(portion) - len(data) == _TEXT_AROUND and _LF not in data and _CR not in data:
            try:
                more = _decode_text(data)
            except UNREADABLE:
                pass
            else:
                if more.output_index == self._item and more.content_index == self._part:
                    text = more.delta
                    self._pieces.append(text)
                    return [TextDelta(self._index, text)] if text else []
        return self._feed(portion)

    def _feed(self, portion: bytes) -> list[Event]:
        events: list[Event] = []
        only = self._frames.sole(portion)
        last: wire.MoreText | None = None
        for data in self._frames.data(portion) if only is None else (only,):
            if self._over:
                break
            try:
                check_encoding(data)
                more = _decode_more(data)
            except UNREADABLE:
                last = None
                self._read(data, events)
                continue
            last = more if type(more) is wire.MoreText else None
            if type(more) is wire.MoreText:
                self._reader.text(more.output_index, more.content_index or 0, more.delta, events)
            elif type(more) is wire.MoreThought:
                part = ("summary", more.summary_index)
                self._reader.thought(more.output_index, part, more.delta, events)
            else:
                self._reader.arguments(more.output_index, more.delta, events)
        self._expect(last)
        return events

    def _expect(self, last: wire.MoreText | None) -> None:
        """More of this text is read without a search for its place."""
        self._item = None
        if last is not None and self._frames.fresh:
            self._item, self._part = last.output_index, last.content_index
            self._index = self._reader.index(last.output_index, last.content_index or 0)
            self._pieces = self._reader.sent[self._index]

    def close(self) -> list[Event]:
        self._closing = True
        events = self.feed(sse.END)
        if not self._over:
            self._over = True
            events.append(Failed(reply_cut_off()))
        return events

    def _read(self, data: bytes, events: list[Event]) -> None:
        try:
            check_encoding(data)
            chunk = wire.CHUNKS.decode(data)
        except UNREADABLE:
            if not read_garbled(data, self._read, events) and not is_other_type(data, _TYPES):
                self._fail(events)
            return
        place = chunk.output_index if chunk.output_index is not None else chunk.item_id
        more = _text(chunk.delta)
        match chunk.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self._reader.text(place, chunk.content_index or 0, more, events)
            case "response.function_call_arguments.delta":
                self._reader.arguments(place, more, events)
            case "response.reasoning_summary_text.delta":
                self._reader.thought(place, ("summary", chunk.summary_index), more, events)
            case "response.reasoning_text.delta":
                self._reader.thought(place, ("content", chunk.content_index), more, events)
            case _:
                self._read_other(chunk, place, events)

    def _fail(self, events: list[Event]) -> None:
        """A frame could not be read. At the end of the stream it was cut."""
        if not (self._over or self._closing):
            self._over = True
            events.append(Failed(reply_garbled("an event")))

    def _read_other(self, chunk: wire.Chunk, place: Any, events: list[Event]) -> None:
        match chunk.type:
            case "response.created" | "response.in_progress" | "response.queued":
                self._begin(chunk.response or {}, events)
            case "response.output_text.annotation.added":
                self._reader.cite_one(place, chunk.content_index or 0, chunk.annotation, events)
            case "response.output_item.added":
                item = self._seen(chunk.item, place)
                if item.get("type") == "function_call":
                    self._reader.call(place, _text(item.get("call_id")), wire.name_of(item), events)
            case "response.output_item.done":
                self._done.add(place)
                self._reader.settle(place, self._seen(chunk.item, place), events)
            case "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled":
                self._end(chunk.response or {}, events)
            case "error":  # RESP-63: the fields lie in an object of their own, or beside the type
                self._over = True
                flat = {"code": chunk.code, "message": chunk.message}
                events.append(Failed(error_from(chunk.error if isinstance(chunk.error, dict) else flat)))
            case _:  # keepalive, the provider's own tools, and what is not known yet (RESP-64)
                return

    def _seen(self, item: dict[str, Any] | None, place: Any) -> dict[str, Any]:
        item = item or {}
        if own := _text(item.get("id")):
            self._places[own] = place
        return item

    def _begin(self, response: dict[str, Any], events: list[Event]) -> None:
        if not self._begun:
            self._begun = True
            events.append(started(response))

    def _end(self, response: dict[str, Any], events: list[Event]) -> None:
        self._begin(response, events)
        self._over = True
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else ()):
            # Some servers leave items out of the final state, or call them by other ids there.
            own = _text(item.get("id")) if isinstance(item, dict) else ""
            if own in self._places or index not in self._done:
                self._reader.settle(self._places.get(own, index), item, events)
        events += ended(response, self._reader)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

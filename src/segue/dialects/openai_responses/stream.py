"""Streamed replies of the Responses wire, both ways: items that grow, and a final state that holds all (RESP-60)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import Usage
from segue.dialects import sse
from segue.dialects.opaque_blocks import is_opaque
from segue.dialects.openai_responses import wire
from segue.dialects.openai_responses.errors import error_from, error_object
from segue.dialects.openai_responses.reply import (
    REFUSED,
    ItemReader,
    call_item,
    ended,
    image_item,
    item_id,
    message_item,
    reasoning_item,
    response_object,
    started,
    status_of,
)
from segue.errors import ProtocolError
from segue.transcript.media import describe
from segue.transcript.value_text import is_object_text

if TYPE_CHECKING:
    from segue.conversation.blocks import Media
    from segue.conversation.events import Event

_decode_more = wire.MORE.decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


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
        self.unread: list[bytes] = []
        self._over = False

    def feed(self, portion: bytes) -> list[Event]:
        events: list[Event] = []
        only = self._frames.sole(portion)
        for data in self._frames.data(portion) if only is None else (only,):
            if self._over:
                break
            try:
                more = _decode_more(data)
            except _UNREADABLE:
                self._read(data, events)
                continue
            if type(more) is wire.MoreText:
                event = self._reader.text(more.output_index, more.content_index or 0, more.delta)
            elif type(more) is wire.MoreThought:
                part = ("summary", more.summary_index)
                event = self._reader.thought(more.output_index, part, more.delta)
            else:
                event = self._reader.arguments(more.output_index, more.delta)
            if event is not None:
                events.append(event)
        return events

    def close(self) -> list[Event]:
        events = self.feed(sse.END)
        if not self._over:
            self._over = True
            unread = f" {len(self.unread)} events of it could not be read." if self.unread else ""
            events.append(Failed(ProtocolError(f"The stream broke off before the reply had ended.{unread}")))
        return events

    def _read(self, data: bytes, events: list[Event]) -> None:
        if data == b"[DONE]":  # RESP-62: proxies add it
            return
        try:
            chunk = wire.CHUNKS.decode(data)
        except _UNREADABLE:
            self.unread.append(data)
            return
        place = chunk.output_index if chunk.output_index is not None else chunk.item_id
        event: Event | None = None
        match chunk.type:
            case "response.output_text.delta" | "response.refusal.delta":
                event = self._reader.text(place, chunk.content_index or 0, _text(chunk.delta))
            case "response.function_call_arguments.delta":
                event = self._reader.arguments(place, _text(chunk.delta))
            case "response.reasoning_summary_text.delta":
                event = self._reader.thought(place, ("summary", chunk.summary_index), _text(chunk.delta))
            case "response.reasoning_text.delta":
                event = self._reader.thought(place, ("content", chunk.content_index), _text(chunk.delta))
            case _:
                self._read_other(chunk, place, events)
        if event is not None:
            events.append(event)

    def _read_other(self, chunk: wire.Chunk, place: Any, events: list[Event]) -> None:
        match chunk.type:
            case "response.created" | "response.in_progress" | "response.queued":
                self._begin(chunk.response or {}, events)
            case "response.output_item.added":
                item = self._seen(chunk.item, place)
                if item.get("type") == "function_call":
                    name, call_id = _text(item.get("name")), _text(item.get("call_id"))
                    event = self._reader.call(place, call_id, name)
                    events += [event] if event is not None else []
            case "response.output_item.done":
                self._done.add(place)
                events += self._reader.settle(place, self._seen(chunk.item, place))
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
            own = item.get("id") if isinstance(item, dict) else None
            if own in self._places or index not in self._done:
                events += self._reader.settle(self._places.get(own, index), item)
        events += ended(response, self._reader)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# The other way

_Kind: TypeAlias = Literal["text", "reasoning", "call", "image", "kept"]
_PREFIXES = {"text": "msg_", "reasoning": "rs_", "call": "fc_", "image": "ig_", "kept": ""}


class _Item:
    """An output item on the wire."""

    __slots__ = ("call_id", "closed", "index", "kind", "media", "name", "own", "pieces", "sealed")

    def __init__(self, kind: _Kind, index: int, own: str) -> None:
        self.kind = kind
        self.index = index
        self.own = own
        self.pieces: list[str] = []
        self.call_id = ""
        self.name = ""
        self.sealed = ""
        self.media: Media | None = None
        self.closed = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def id(self) -> str:
        return _PREFIXES[self.kind] + self.own

    def state(self, *, refused: bool = False) -> dict[str, Any] | msgspec.Raw:
        if self.kind == "kept":
            return msgspec.Raw(self.sealed)
        if self.kind == "text":
            return message_item(self.own, self.text, refused=refused)
        if self.kind == "reasoning":
            return reasoning_item(self.own, self.text, self.sealed)
        if self.kind == "image":
            return image_item(self.own, self.media)
        return call_item(self.own, self.call_id, self.name, self.text or "{}")

    def beginning(self) -> dict[str, Any] | msgspec.Raw:
        if self.kind == "kept":
            return msgspec.Raw(self.sealed)
        if self.kind == "text":
            return message_item(self.own, "", status="in_progress")
        if self.kind == "reasoning":
            return reasoning_item(self.own, "", "")
        if self.kind == "image":
            return image_item(self.own, None)
        return call_item(self.own, self.call_id, self.name, "", "in_progress")


@final
class ReplyEncoder:
    """Events in, the provider's stream out.

    An item is done when the next one begins; only a call whose arguments are not whole yet stays open, so that
    parallel calls may come interleaved. Seals on anything but thoughts have no place on this wire.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._started = ReplyStarted()
        self._begun = False
        self._usage: Usage | None = None
        self._items: dict[int, _Item] = {}
        self._finished: Finished | None = None
        self._over = False
        self._sequence = 0

    def feed(self, event: Event) -> bytes:
        if self._over:
            return b""
        match event:
            case ReplyStarted():
                self._started = event
                return self._begin()
            case UsageReported(usage):
                self._usage = (self._usage or Usage()).updated(usage)
                return b""
            case Finished():
                self._finished = self._finished or event
                return b""  # sent at the end: counts may still come
            case Failed(error):
                return self._fail(error_object(error)[1])
            case _:
                return self._begin() + self._encode(event)

    def close(self) -> bytes:
        if self._over:
            return b""
        self._over = True
        called = any(item.kind == "call" for item in self._items.values())
        last = self._finished or Finished("tool_calls" if called else "stop")
        status, details = status_of(last.reason, last.raw)
        kind = "response.completed" if status == "completed" else "response.incomplete"
        refused = last.raw == REFUSED
        begun = self._begin()
        closed = [self._close(item) for item in self._items.values()]
        output = [item.state(refused=refused) for item in self._items.values()]
        response = self._response(status, details=details, output=output, usage=self._usage)
        return b"".join((begun, *closed, self._frame(kind, response=response)))

    def _fail(self, error: dict[str, Any]) -> bytes:
        self._over = True
        output = [item.state() for item in self._items.values()]
        fields = {"code": error["code"] or "server_error", "message": error["message"]}
        response = self._response("failed", output=output, error=fields)
        return b"".join(
            (
                self._begin(),
                self._frame("error", error=error),
                self._frame("response.failed", response=response),
            )
        )

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        return response_object(self._started.id, self._model or self._started.model, status=status, **fields)

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        response = self._response("in_progress")
        return self._frame("response.created", response=response) + self._frame(
            "response.in_progress", response=response
        )

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                return self._delta(index, "text", text)
            case ReasoningDelta(index, text):
                return self._delta(index, "reasoning", text)
            case ArgumentsDelta(index, text):
                return self._delta(index, "call", text)
            case CallStarted(index, native_id, name):
                return self._open(index, "call", native_id, name)
            case Sealed():
                return self._seal(event)
            case MediaArrived(index, media):
                return self._show(index, media)
            case _:
                return b""

    def _seal(self, seal: Sealed) -> bytes:
        if seal.index not in self._items and seal.block != "reasoning":
            kept = seal.block == "text" and is_opaque(seal.payload, seal.kind)
            return self._open(seal.index, "kept", sealed=seal.payload) if kept else b""
        opened = self._open(seal.index, "reasoning")
        self._items[seal.index].sealed = seal.payload
        return opened

    def _show(self, index: int, media: Media) -> bytes:
        if media.kind != "image" or not media.data:
            return self._delta(index, "text", describe(media).text)
        opened = self._open(index, "image")
        self._items[index].media = media
        return opened

    def _delta(self, index: int, kind: _Kind, text: str) -> bytes:
        opened = self._open(index, kind)
        item = self._items[index]
        begun = b"" if item.pieces or item.kind == "call" else self._part(item, "added", "")
        item.pieces.append(text)
        place = {"item_id": item.id, "output_index": item.index}
        if item.kind == "text":
            sent = self._frame(
                "response.output_text.delta", **place, content_index=0, delta=text, logprobs=[]
            )
        elif item.kind == "reasoning":
            sent = self._frame("response.reasoning_summary_text.delta", **place, summary_index=0, delta=text)
        else:
            sent = self._frame("response.function_call_arguments.delta", **place, delta=text)
        return opened + begun + sent

    def _open(self, index: int, kind: _Kind, call_id: str = "", name: str = "", sealed: str = "") -> bytes:
        if index in self._items:
            return b""
        closed = [self._close(before) for before in self._items.values() if _is_whole(before)]
        own = item_id(self._started.id, len(self._items))
        item = self._items[index] = _Item(kind, len(self._items), own)
        item.call_id, item.name, item.sealed = call_id, name, sealed
        added = self._frame("response.output_item.added", output_index=item.index, item=item.beginning())
        return b"".join((*closed, added))

    def _close(self, item: _Item) -> bytes:
        if item.closed:
            return b""
        item.closed = True
        place = {"item_id": item.id, "output_index": item.index}
        text = item.text
        ending = b""
        if item.kind == "call":
            ending = self._frame(
                "response.function_call_arguments.done", **place, name=item.name, arguments=text or "{}"
            )
        elif item.pieces and item.kind == "text":
            ending = self._frame(
                "response.output_text.done", **place, content_index=0, text=text, logprobs=[]
            )
            ending += self._part(item, "done", text)
        elif item.pieces:
            ending = self._frame("response.reasoning_summary_text.done", **place, summary_index=0, text=text)
            ending += self._part(item, "done", text)
        done = self._frame("response.output_item.done", output_index=item.index, item=item.state())
        return ending + done

    def _part(self, item: _Item, what: str, text: str) -> bytes:
        place = {"item_id": item.id, "output_index": item.index}
        if item.kind == "text":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            return self._frame(f"response.content_part.{what}", **place, content_index=0, part=part)
        thought = {"type": "summary_text", "text": text}
        return self._frame(f"response.reasoning_summary_part.{what}", **place, summary_index=0, part=thought)

    def _frame(self, kind: str, **fields: Any) -> bytes:
        fields = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return sse.encode(wire.ENCODER.encode(fields), kind)


def _is_whole(item: _Item) -> bool:
    return not item.closed and (item.kind != "call" or is_object_text(item.text))

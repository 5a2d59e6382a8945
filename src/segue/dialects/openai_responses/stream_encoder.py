"""Streamed replies of the Responses wire as its server writes them: items that grow, and a final state (RESP-60)."""

from __future__ import annotations

from itertools import chain, count
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Media
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Sealed,
    TextDelta,
)
from segue.conversation.tools import ToolSpec
from segue.dialects.openai_responses import wire
from segue.dialects.openai_responses.errors import error_object
from segue.dialects.openai_responses.reply import REFUSED
from segue.dialects.openai_responses.reply_encoder import (
    annotation_of,
    call_item,
    custom_input,
    image_item,
    is_written,
    item_id,
    message_item,
    reasoning_item,
    response_object,
    status_of,
)
from segue.dialects.requests.opaque_blocks import is_opaque
from segue.dialects.streams import sse
from segue.dialects.streams.chunk_streams import ChunkEncoder
from segue.dialects.streams.chunk_template import ChunkTemplate, json_text
from segue.transcript.blocks.media import describe
from segue.transcript.blocks.value_text import is_object_text

if TYPE_CHECKING:
    from segue.conversation.blocks import Citation
    from segue.conversation.events import Event
    from segue.errors import SegueError

_Kind: TypeAlias = Literal["text", "reasoning", "call", "custom", "image", "kept"]
_PREFIXES = {"text": "msg_", "reasoning": "rs_", "call": "fc_", "custom": "ctc_", "image": "ig_", "kept": ""}
_HEAD = b'event: %b\ndata: {"type":"%b","item_id":%b,"output_index":%d%b,"delta":'
_TAIL = b',"sequence_number":%d}\n\n'
_TAILS = tuple([_TAIL % number for number in range(2048)])
"""Of most events: to write one takes longer than the text of most deltas."""
_DELTAS: dict[_Kind, tuple[bytes, bytes]] = {
    "text": (b"response.output_text.delta", b',"content_index":0,"logprobs":[]'),
    "reasoning": (b"response.reasoning_summary_text.delta", b',"summary_index":0'),
    "call": (b"response.function_call_arguments.delta", b""),
    "custom": (b"response.custom_tool_call_input.delta", b""),
}
"""Name of the event with more of an item, and the fields that lead to the part of it."""


class _Item(Struct):
    """An output item on the wire. `head`: all of a delta before its text."""

    kind: _Kind
    index: int
    own: str
    call_id: str = ""
    tool: ToolSpec = ToolSpec("")
    sealed: str = ""
    media: Media | None = None
    pieces: list[str] = []
    cited: list[dict[str, Any]] = []
    closed: bool = False
    head: bytes = b""

    def __post_init__(self) -> None:
        if self.kind in _DELTAS:
            name, place = _DELTAS[self.kind]
            self.head = _HEAD % (name, name, json_text(self.id), self.index, place)

    @property
    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]  # it is asked for several times at the end
        return self.pieces[0] if self.pieces else ""

    @property
    def id(self) -> str:
        return _PREFIXES[self.kind] + self.own

    def state(self, status: str = "completed", *, refused: bool = False) -> dict[str, Any] | msgspec.Raw:
        match self.kind:
            case "kept":
                return msgspec.Raw(self.sealed)
            case "text":
                return message_item(self.own, self.text, refused=refused, status=status, cited=self.cited)
            case "reasoning":
                return reasoning_item(self.own, self.text, self.sealed)
            case "image":
                return image_item(self.own, self.media)
            case _:
                arguments = self.text or ("{}" if status == "completed" else "")
                return call_item(self.own, self.call_id, self.tool, arguments, status)


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out.

    An item is done when the next one begins; only a call whose arguments are not whole yet stays open, so that
    parallel calls may come interleaved. Seals on anything but thoughts have no place on this wire.
    """

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._tools: dict[str, ToolSpec] = {}
        self._begun = False
        self._items: dict[int, _Item] = {}
        self._growing: dict[int, _Item] = {}
        """Items that only need more text."""
        self._tails = chain(_TAILS, map(_TAIL.__mod__, count(len(_TAILS))))
        """Ends of the events that are still to come: their numbers."""

    def feed(self, event: Event) -> bytes:
        if type(event) is TextDelta or type(event) is ReasoningDelta or type(event) is ArgumentsDelta:
            # Nearly all events: more of an item that is known.
            growing = self._growing.get(event.index)
            if growing is not None:
                growing.pieces.append(event.text)
                return self._more(growing, event.text)
        return self._feed(event) if not self._over else b""

    def template(self, event: TextDelta | ReasoningDelta) -> ChunkTemplate | None:
        item = self._growing.get(event.index)
        if item is None:
            return None
        return ChunkTemplate(item.head, tails=self._tails, pieces=item.pieces)

    def _opening(self) -> bytes:
        self._tools = {tool.name: tool for tool in self._started.tools}
        return self._begin()

    def _ending(self) -> bytes:
        self._growing.clear()
        called = any(item.kind in ("call", "custom") for item in self._items.values())
        last = self._finished or Finished("tool_calls" if called else "stop")
        status, details = status_of(last.reason, last.raw)
        kind = "response.completed" if status == "completed" else "response.incomplete"
        refused = last.raw == REFUSED
        begun = self._begin()
        closed = [self._close(item) for item in self._items.values()]
        output = [item.state(refused=refused) for item in self._items.values()]
        response = self._response(status, details=details, output=output, usage=self._usage)
        return b"".join((begun, *closed, self._frame(kind, response=response)))

    def _failure(self, error: SegueError) -> bytes:
        self._growing.clear()
        output = [item.state() for item in self._items.values()]
        shown = error_object(error)[1]
        fields = {"code": shown["code"] or "server_error", "message": shown["message"]}
        response = {**self._response("failed", output=output), "error": fields}
        return b"".join(
            (
                self._begin(),
                self._frame("error", error=shown),
                self._frame("response.failed", response=response),
            )
        )

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        began = self._started
        return response_object(
            self._id, self._model, status=status, created=began.created, repeated=began.repeated, **fields
        )

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        # Written once for both: with the client's tools it is long.
        response = msgspec.Raw(wire.ENCODER.encode(self._response("in_progress")))
        return self._frame("response.created", response=response) + self._frame(
            "response.in_progress", response=response
        )

    def _content(self, event: Event) -> bytes:
        return self._begin() + self._encode(event)

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(index, text):
                return self._delta(index, "text", text)
            case ReasoningDelta(index, text):
                return self._delta(index, "reasoning", text)
            case ArgumentsDelta(index, text):
                return self._delta(index, "call", text)
            case CallStarted(index, native_id, name):
                return self._call(index, native_id, name)
            case Sealed():
                return self._seal(event)
            case MediaArrived(index, media):
                return self._show(index, media)
            case Cited(index, citation) if is_written(citation):
                return self._cite(index, citation)
            case _:
                return b""

    def _call(self, index: int, call_id: str, name: str) -> bytes:
        tool = self._tools.get(name) or ToolSpec(name)
        return self._open(index, "custom" if tool.kind == "custom" else "call", call_id=call_id, tool=tool)

    def _seal(self, seal: Sealed) -> bytes:
        if seal.index not in self._items and seal.block != "reasoning":
            kept = seal.block == "text" and is_opaque(seal.payload, seal.kind)
            return self._open(seal.index, "kept", sealed=seal.payload) if kept else b""
        opened = self._open(seal.index, "reasoning")
        self._items[seal.index].sealed = seal.payload
        return opened

    def _cite(self, index: int, citation: Citation) -> bytes:
        begun = self._delta(index, "text", "") if index not in self._items else b""
        item = self._items[index]
        annotation = annotation_of(citation, item.text)
        item.cited.append(annotation)
        return begun + self._frame(
            "response.output_text.annotation.added",
            item_id=item.id,
            output_index=item.index,
            content_index=0,
            annotation_index=len(item.cited) - 1,
            annotation=annotation,
        )

    def _show(self, index: int, media: Media) -> bytes:
        if media.kind != "image" or not media.data:
            return self._delta(index, "text", describe(media).text)
        opened = self._open(index, "image")
        self._items[index].media = media
        return opened

    def _delta(self, index: int, kind: _Kind, text: str) -> bytes:
        opened = self._open(index, kind)
        item = self._items[index]
        begun = b"" if item.pieces or item.kind in ("call", "custom") else self._part(item, "added", "")
        item.pieces.append(text)
        if item.kind == "custom":
            return opened  # the text is known when its wrapping is whole
        self._growing[index] = item
        return opened + begun + self._more(item, text)

    def _more(self, item: _Item, text: str) -> bytes:
        return item.head + json_text(text) + next(self._tails)

    def _open(self, index: int, kind: _Kind, **fields: Any) -> bytes:
        if index in self._items:
            return b""
        closed = [self._close(before) for before in self._items.values() if _is_whole(before)]
        own = item_id(self._id, len(self._items))
        item = self._items[index] = _Item(kind, len(self._items), own, **fields)
        begun = item.state("in_progress")
        added = self._frame("response.output_item.added", output_index=item.index, item=begun)
        return b"".join((*closed, added))

    def _close(self, item: _Item) -> bytes:
        if item.closed:
            return b""
        item.closed = True
        return self._completed(item) + self._frame(
            "response.output_item.done", output_index=item.index, item=item.state()
        )

    def _completed(self, item: _Item) -> bytes:
        """The events that complete an item before it is done."""
        place = {"item_id": item.id, "output_index": item.index}
        text = item.text
        match item.kind:
            case "call":
                name, arguments = item.tool.local_name or item.tool.name, text or "{}"
                return self._frame(
                    "response.function_call_arguments.done", **place, name=name, arguments=arguments
                )
            case "custom":
                given = custom_input(text)
                return self._more(item, given) + self._frame(
                    "response.custom_tool_call_input.done", **place, input=given
                )
            case "text" if item.pieces:
                done = self._frame(
                    "response.output_text.done", **place, content_index=0, text=text, logprobs=[]
                )
                return done + self._part(item, "done", text)
            case "reasoning" if item.pieces:
                done = self._frame(
                    "response.reasoning_summary_text.done", **place, summary_index=0, text=text
                )
                return done + self._part(item, "done", text)
            case _:
                return b""

    def _part(self, item: _Item, what: str, text: str) -> bytes:
        place = {"item_id": item.id, "output_index": item.index}
        if item.kind == "text":
            part = {"type": "output_text", "text": text, "annotations": [*item.cited], "logprobs": []}
            return self._frame(f"response.content_part.{what}", **place, content_index=0, part=part)
        thought = {"type": "summary_text", "text": text}
        return self._frame(f"response.reasoning_summary_part.{what}", **place, summary_index=0, part=thought)

    def _frame(self, kind: str, **fields: Any) -> bytes:
        data = wire.ENCODER.encode({"type": kind, **fields}).removesuffix(b"}")
        return sse.encode(data + next(self._tails).removesuffix(sse.END), kind)


def _is_whole(item: _Item) -> bool:
    return not item.closed and (item.kind not in ("call", "custom") or is_object_text(item.text))

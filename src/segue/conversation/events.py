"""A reply while it arrives, and the one fold that makes a message of it.

Whole and streamed replies both become these events. Blocks differ by `index`, so parallel calls may
arrive interleaved; their order in the message is the order of their first event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Block, Citation, Media, Origin, Reasoning, Seal, Text, ToolCall
from segue.conversation.json_safe import is_too_deep
from segue.conversation.message import Message
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import Usage
from segue.errors import SegueError

if TYPE_CHECKING:
    from collections.abc import Iterable

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "cancelled", "content_filter", "error"]


@final
class ReplyStarted(Struct, frozen=True, gc=False, tag="reply_started"):
    """The provider began to answer."""

    id: str = ""
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    """For a client: those of its tools that are no plain functions, so that calls of them get the form it expects."""
    created: float = 0.0
    """For a client: when the reply began, in seconds since 1970; 0 if it is not known."""
    waited: float = 0.0
    """For a client: the seconds between the request and this moment."""
    repeated: Mapping[str, Any] = {}
    """For a client: what replies of its wire repeat of the request."""


@final
class TextDelta(Struct, frozen=True, gc=False, tag="text_delta"):
    """More visible text."""

    index: int
    text: str


@final
class ReasoningDelta(Struct, frozen=True, gc=False, tag="reasoning_delta"):
    """More thought."""

    index: int
    text: str


@final
class CallStarted(Struct, frozen=True, gc=False, tag="call_started"):
    """The model calls a tool; its arguments follow."""

    index: int
    native_id: str
    name: str


@final
class ArgumentsDelta(Struct, frozen=True, gc=False, tag="arguments_delta"):
    """More of the argument text of a call."""

    index: int
    text: str


@final
class Sealed(Struct, frozen=True, gc=False, tag="sealed"):
    """The payload that only its origin can open, for the block reported so far under this index.

    The last one replaces those before. `kind` as in `Seal`.
    """

    index: int
    payload: str
    kind: Literal["signature", "encrypted", "redacted", "thought"] = "signature"
    block: Literal["text", "reasoning", "call"] = "reasoning"
    """What kind of block it belongs to, should this be the first event under the index."""


@final
class MediaArrived(Struct, frozen=True, gc=False, tag="media_arrived"):
    """The model made an image, a document or a sound."""

    index: int
    media: Media


@final
class Cited(Struct, frozen=True, gc=False, tag="cited"):
    """The model names a source for the text under this index."""

    index: int
    citation: Citation


@final
class UsageReported(Struct, frozen=True, gc=False, tag="usage_reported"):
    """What the reply cost so far. Fields that are set replace earlier ones."""

    usage: Usage


@final
class Finished(Struct, frozen=True, gc=False, tag="finished"):
    """The reply is over. `raw` is the provider's own name for the reason."""

    reason: FinishReason
    raw: str = ""
    seconds: float = 0.0
    """For a client: how long all of it took, from the request on; 0 if it is not known."""


@final
class Failed(Struct, frozen=True, gc=False, tag="failed"):
    """The reply broke off: the provider reported an error, or the stream ended without an end."""

    error: SegueError


Event: TypeAlias = (
    ReplyStarted
    | TextDelta
    | ReasoningDelta
    | CallStarted
    | ArgumentsDelta
    | Sealed
    | MediaArrived
    | Cited
    | UsageReported
    | Finished
    | Failed
)
"""What arrives of a reply, piece by piece."""


@final
class Reply(Struct, frozen=True):
    """A whole reply: its message, why it ended, what it cost."""

    message: Message
    finish: FinishReason = "stop"
    usage: Usage = Usage()
    id: str = ""
    model: str = ""
    """The model's name as the provider reported it."""
    raw_finish: str = ""
    error: SegueError | None = None
    tools: tuple[ToolSpec, ...] = ()
    """As in `ReplyStarted`, like the next three; `seconds` as in `Finished`."""
    created: float = 0.0
    waited: float = 0.0
    repeated: Mapping[str, Any] = {}
    seconds: float = 0.0


def fold(events: Iterable[Event], origin: Origin, *, made_under: str = "") -> Reply:
    """Make a reply of its events. `made_under`: fingerprint of the transcript it answers, kept on its seals."""
    folding = _Folding(origin, made_under)
    blocks = folding.blocks
    for event in events:
        # Nearly all events are more of a block that is known: handled here, they take a quarter of the time.
        if type(event) is TextDelta or type(event) is ReasoningDelta or type(event) is ArgumentsDelta:
            block = blocks.get(event.index)
            if block is not None:
                block.pieces.append(event.text)
                continue
        folding.add(event)
    message = Message("model", tuple([block.finish() for block in blocks.values()]), origin)
    started, error = folding.started, folding.error
    last = folding.finished or Finished("tool_calls" if message.calls else "stop")
    return Reply(
        message,
        last.reason if error is None else "error",
        folding.usage,
        started.id,
        started.model,
        last.raw,
        error,
        started.tools,
        started.created,
        started.waited,
        started.repeated,
        last.seconds,
    )


class _Folding(Struct):
    origin: Origin
    made_under: str
    blocks: dict[int, _Unfinished] = {}
    usage: Usage = Usage()
    started: ReplyStarted = ReplyStarted()
    finished: Finished | None = None
    error: SegueError | None = None

    def add(self, event: Event) -> None:
        match event:
            case TextDelta(index, text):
                self._block(index, "text").pieces.append(text)
            case ReasoningDelta(index, text):
                self._block(index, "reasoning").pieces.append(text)
            case ArgumentsDelta(index, text):
                self._block(index, "call").pieces.append(text)
            case CallStarted(index, native_id, name):
                block = self._block(index, "call")
                block.native_id, block.name = native_id or block.native_id, name or block.name
            case Sealed(index, payload, kind, block_kind):
                self._block(index, block_kind).seal = Seal(self.origin, payload, kind, self.made_under)
            case MediaArrived(index, media):
                self._block(index, "media").media = media
            case Cited(index, citation):
                self._block(index, "text").citations.append(citation)
            case UsageReported(usage):
                self.usage = self.usage.updated(usage)
            case ReplyStarted():
                self.started = event
            case Finished():
                self.finished = self.finished or event
            case Failed(error):
                self.error = self.error or error

    def _block(self, index: int, kind: Literal["text", "reasoning", "call", "media"]) -> _Unfinished:
        return self.blocks.setdefault(index, _Unfinished(kind))


class _Unfinished(Struct):
    kind: Literal["text", "reasoning", "call", "media"]
    pieces: list[str] = []
    native_id: str = ""
    name: str = ""
    seal: Seal | None = None
    media: Media | None = None
    citations: list[Citation] = []

    def finish(self) -> Block:
        text = "".join(self.pieces)
        if self.kind == "reasoning":
            return Reasoning(text, self.seal)
        if self.kind == "call":
            return ToolCall("", self.name, parse_arguments(text), text, self.native_id, self.seal)
        return self.media or Text(text, self.seal, citations=tuple(self.citations))


def parse_arguments(raw: str) -> dict[str, object] | None:
    """The arguments as an object; None if the text is not one, or nests deeper than JSON is written here. An empty text
    is an empty object."""
    if not raw or raw.isspace():
        return {}
    try:
        parsed = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) and not is_too_deep(raw, parsed) else None

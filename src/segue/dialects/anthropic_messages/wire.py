"""The Messages wire: content blocks as we send them, and the one shape that every event of a stream fits into."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from segue.conversation.json_safe import encodable
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from segue.conversation.blocks import Media


class TextBlock(Struct, tag="text", gc=False):
    """Visible text."""

    text: str


class CitedText(Struct, tag="text", gc=False):
    """Visible text with its sources."""

    text: str
    citations: list[dict[str, Any]]


class Thinking(Struct, tag="thinking", gc=False):
    """A signed thought; the text is empty where the provider keeps it (ANT-51)."""

    thinking: str
    signature: str


class RedactedThinking(Struct, tag="redacted_thinking", gc=False):
    """A thought that only the provider can read."""

    data: str


class ToolUse(Struct, tag="tool_use", gc=False):
    """A call."""

    id: str
    name: str
    input: Raw


class Source(Struct, gc=False, omit_defaults=True):
    """Where an image or a document is to be had."""

    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""


class Image(Struct, tag="image", gc=False):
    """A picture."""

    source: Source


class Document(Struct, tag="document", gc=False, omit_defaults=True):
    """A PDF or a plain text."""

    source: Source
    title: str = ""


def encode_media(media: Media) -> Image | Document:
    mime = media_type(media)
    if mime.startswith("image/"):
        return Image(_encode_source(media, mime))
    return Document(_encode_source(media, mime), encodable(media.name))


def _encode_source(media: Media, mime: str) -> Source:
    if not media.data:
        return Source("url", url=media.url)
    if mime != "text/plain":
        return Source("base64", mime, media.data)
    return Source("text", mime, _plain_text(media.data))


def _plain_text(data: str) -> str:
    """Plain text is not sent in base64 here; what is none is taken for the text itself."""
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return data


Shown: TypeAlias = TextBlock | Image | Document


class ToolResultBlock(Struct, tag="tool_result", gc=False, omit_defaults=True):
    """The end of a call."""

    tool_use_id: str
    content: str | list[Shown]
    is_error: bool = False


Content: TypeAlias = (
    TextBlock | CitedText | Thinking | RedactedThinking | ToolUse | Image | Document | ToolResultBlock | Raw
)


class WireMessage(Struct, gc=False):
    """One message of a request."""

    role: str
    content: str | list[Content]


class Delta(Struct, gc=False):
    """What a stream adds to a block or to the whole message."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: Any = None
    stop_reason: str | None = None


class Chunk(Struct, gc=False):
    """One event of a stream, of whichever type."""

    type: str = ""
    index: int = 0
    delta: Delta | None = None
    message: dict[str, Any] | None = None
    content_block: dict[str, Any] | None = None
    usage: Any = None
    error: Any = None


CHUNKS = msgspec.json.Decoder(Chunk)


@final
class MoreText(Struct, tag="text_delta", gc=False):
    """More of a text."""

    text: str = ""


@final
class MoreThought(Struct, tag="thinking_delta", gc=False):
    """More of a thought."""

    thinking: str = ""


@final
class MoreArguments(Struct, tag="input_json_delta", gc=False):
    """More of the arguments of a call."""

    partial_json: str = ""


class More(Struct, tag="content_block_delta", gc=False):
    """What nearly all events are, in a shape of its own: it takes four fifths of the time to read."""

    delta: MoreText | MoreThought | MoreArguments
    index: int = 0


MORE = msgspec.json.Decoder(More)


class ReplyBlock(Struct, gc=False):
    """A content block of a whole reply, of whichever type."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()
    citations: Any = None


class WholeReply(Struct, gc=False):
    """A reply that came in one piece, or the error that came in its place."""

    type: str = ""
    id: str | None = None
    model: str | None = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    usage: Any = None
    diagnostics: Any = None
    error: Any = None


BLOCKS = msgspec.json.Decoder(ReplyBlock)
REPLIES = msgspec.json.Decoder(WholeReply)
ENCODER = msgspec.json.Encoder()

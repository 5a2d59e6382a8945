"""The Converse wire: the shapes of its stream and of its whole replies, and media in its blocks."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from segue.conversation.blocks import Media
from segue.conversation.json_safe import encodable
from segue.dialects.converse.rules import DOCUMENT_FORMATS, IMAGE_FORMATS
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from collections.abc import Mapping

ENCODER: Final = msgspec.json.Encoder()
CACHE_POINT: Final = "cachePoint"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9\-()\[\] ]+")
_LONGEST_NAME = 200
_TEXTS = ("text/", "application/json")
_MIMES: Final[Mapping[str, str]] = {
    **{written: mime for mime, written in IMAGE_FORMATS.items()},
    **{written: mime for mime, written in DOCUMENT_FORMATS.items()},
}


# Media (BDR-16)


def media_block(media: Media) -> dict[str, Any]:
    mime = media_type(media)
    if mime.startswith("image/"):
        return {"image": {"format": IMAGE_FORMATS[mime], "source": _source(media, mime)}}
    return {
        "document": {
            "format": DOCUMENT_FORMATS[mime],
            "name": _document_name(media),
            "source": _source(media, mime),
        }
    }


def _source(media: Media, mime: str) -> dict[str, Any]:
    if not media.data:
        return {"s3Location": {"uri": media.url}}
    return {"bytes": _base64(media.data) if mime.startswith(_TEXTS) else media.data}


def _base64(data: str) -> str:
    """What is no base64 is taken for the text itself."""
    try:
        b64decode(data, validate=True)
    except ValueError:
        return b64encode(data.encode()).decode()
    return data


def _document_name(media: Media) -> str:
    """The wire insists on a name, of few characters. One that we make differs for each document, and is always the same."""
    return plain_name(media.name) or f"document-{sha256((media.data or media.url).encode()).hexdigest()[:8]}"


def plain_name(name: str) -> str:
    """A name of the few characters that the wire takes."""
    return " ".join(_NOT_IN_NAMES.sub("-", encodable(name)).split())[:_LONGEST_NAME].strip()


def read_media(block: Mapping[str, Any]) -> Media | None:
    """The image or document in a block; None if its content is not in the request, or in a form of the wire's own."""
    kind = "image" if "image" in block else "document"
    held = block[kind]
    source = held.get("source") if isinstance(held, dict) else None
    if not isinstance(source, dict) or len(source) != 1:
        return None
    ((way, content),) = source.items()
    mime, name = _MIMES.get(str(held.get("format")), ""), held.get("name")
    title = name if isinstance(name, str) else ""
    if way == "bytes" and isinstance(content, str) and mime:
        return Media(kind, mime, content, name=title)  # type: ignore[arg-type]  # one of the two kinds
    if way == "s3Location" and isinstance(content, dict) and isinstance(content.get("uri"), str) and mime:
        return Media(kind, mime, url=content["uri"], name=title)  # type: ignore[arg-type]
    if way == "text" and isinstance(content, str):
        data = b64encode(content.encode("utf-8", "surrogatepass")).decode()
        return Media("document", mime or "text/plain", data, name=title)
    return None


# What a stream holds


class ReasoningDelta(Struct, rename="camel", gc=False):
    """More of a thought, or what seals it."""

    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class CallDelta(Struct, gc=False):
    """More of the arguments of a call."""

    input: str = ""


class Delta(Struct, rename="camel", gc=False):
    """What a stream adds to a block."""

    text: str | None = None
    tool_use: CallDelta | None = None
    reasoning_content: ReasoningDelta | None = None
    citation: Any = None
    image: Any = None
    tool_result: Any = None


class BlockDelta(Struct, rename="camel", gc=False):
    """The payload of a `contentBlockDelta`."""

    delta: Delta
    content_block_index: int = 0


class BlockStart(Struct, rename="camel", gc=False):
    """The payload of a `contentBlockStart`."""

    start: dict[str, Any] = {}
    content_block_index: int = 0


class BlockStop(Struct, rename="camel", gc=False):
    """The payload of a `contentBlockStop`."""

    content_block_index: int = 0


class MessageStop(Struct, rename="camel", gc=False):
    """The payload of a `messageStop`."""

    stop_reason: str = ""


class Metadata(Struct, rename="camel", gc=False):
    """The payload of a `metadata`, the last event of a reply."""

    usage: Any = None


DELTAS: Final = msgspec.json.Decoder(BlockDelta)
STARTS: Final = msgspec.json.Decoder(BlockStart)
STOPS: Final = msgspec.json.Decoder(BlockStop)
ENDS: Final = msgspec.json.Decoder(MessageStop)
METADATA: Final = msgspec.json.Decoder(Metadata)


# What a whole reply holds


class Call(Struct, rename="camel", gc=False):
    """A call, whose arguments are kept as the text they arrived in."""

    tool_use_id: str = ""
    name: str = ""
    input: Raw = Raw()
    type: str | None = None


class ReasoningText(Struct, rename="camel", gc=False):
    """A thought in words."""

    text: str = ""
    signature: str | None = None


class ReasoningBlock(Struct, rename="camel", gc=False):
    """A thought, in words or redacted."""

    reasoning_text: ReasoningText | None = None
    redacted_content: str | None = None


class Block(Struct, rename="camel", gc=False):
    """A content block of a whole reply, of whichever kind."""

    text: str | None = None
    tool_use: Call | None = None
    reasoning_content: ReasoningBlock | None = None


class ReplyMessage(Struct, gc=False):
    """The message of a whole reply."""

    content: list[Raw] | None = None


class Output(Struct, gc=False):
    """What a reply has for an answer."""

    message: ReplyMessage | None = None


class WholeReply(Struct, rename="camel", gc=False):
    """A reply that came in one piece, or the error that came in its place."""

    output: Output | None = None
    stop_reason: str | None = None
    usage: Any = None
    message: Any = None


BLOCKS: Final = msgspec.json.Decoder(Block)
REPLIES: Final = msgspec.json.Decoder(WholeReply)

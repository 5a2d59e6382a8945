"""Images and documents as blocks of the Messages wire."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

from segue.conversation.json_safe import encodable
from segue.dialects.anthropic_messages import wire
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from segue.conversation.blocks import Media


def encode_media(media: Media) -> wire.Image | wire.Document:
    mime = media_type(media)
    if mime.startswith("image/"):
        return wire.Image(_encode_source(media, mime))
    return wire.Document(_encode_source(media, mime), encodable(media.name))


def _encode_source(media: Media, mime: str) -> wire.Source:
    if not media.data:
        return wire.Source("url", url=media.url)
    if mime != "text/plain":
        return wire.Source("base64", mime, media.data)
    return wire.Source("text", mime, _plain_text(media.data))


def _plain_text(data: str) -> str:
    """Plain text is not sent in base64 here; what is none is taken for the text itself."""
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return data

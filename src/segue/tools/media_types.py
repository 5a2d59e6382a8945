"""What a file is by its first bytes, and how it is sent: as an image, a document, a sound or text."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from segue.conversation.blocks import Media
from segue.conversation.json_safe import encodable

if TYPE_CHECKING:
    from segue.conversation.blocks import MediaKind

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def mime_of(content: bytes) -> str:
    """The type of media that begins like this; empty if it is none that we know."""
    if content[:4] == b"RIFF":
        return _RIFF.get(content[8:12], "")
    return next((mime for start, mime in _SIGNATURES if content.startswith(start)), "")


def media_kind(mime: str) -> MediaKind | None:
    """How a file of this type is sent; None: as text."""
    if mime == "image/svg+xml":
        return None
    if mime.startswith("image/"):
        return "image"
    if mime.startswith("audio/"):
        return "audio"
    return "document" if mime == "application/pdf" else None


def media_of(data: bytes, name: str = "") -> Media | None:
    """An image or a document, known by its first bytes."""
    mime = mime_of(data)
    kind = media_kind(mime)
    if kind not in ("image", "document"):
        return None
    return Media(kind, mime, b64encode(data).decode(), name=encodable(name))

"""What a tool returned, as a value that a journal keeps and a model reads."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from segue.conversation.blocks import Media
from segue.conversation.json_safe import encodable, ensure_json_safe, json_safe
from segue.tools.definition import Output


def media_of(data: bytes, name: str = "") -> Media | None:
    """An image or a document, known by its first bytes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        mime = "image/png"
    elif data.startswith(b"\xff\xd8\xff"):
        mime = "image/jpeg"
    elif data.startswith((b"GIF87a", b"GIF89a")):
        mime = "image/gif"
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        mime = "image/webp"
    elif data.startswith(b"%PDF-"):
        mime = "application/pdf"
    else:
        return None
    kind = "image" if mime.startswith("image/") else "document"
    return Media(kind, mime, b64encode(data).decode("ascii"), name=encodable(name))  # type: ignore[arg-type]


def output_of(value: Any) -> Output:
    """Any value a tool may return: text, JSON, dataclasses, Structs, media, the bytes of an image, or an Output."""
    given = value if type(value) is Output else Output(value)
    error = None if given.error is None else encodable(given.error)
    held = given.value if type(given.value) in (list, tuple) else (given.value,)
    pieces = [(one, _media(one)) for one in held]
    media = tuple(piece for _, piece in pieces if piece is not None)
    if not media:
        return Output(_plain(given.value), given.media, error)
    rest = [_plain(one) for one, piece in pieces if piece is None]
    return Output(rest[0] if len(rest) == 1 else rest or None, (*media, *given.media), error)


def _media(value: Any) -> Media | None:
    if type(value) is Media:
        return value
    return media_of(bytes(value)) if isinstance(value, (bytes, bytearray)) else None


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return json_safe(value)
    return ensure_json_safe(value)

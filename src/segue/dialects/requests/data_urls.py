"""Media in addresses: `data:` URLs ↔ `Media`."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING

from segue.conversation.blocks import Media
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from segue.conversation.blocks import MediaKind

_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_SPACE = re.compile(r"[ \t\r\n]+")
_KINDS: dict[str, MediaKind] = {"image": "image", "audio": "audio"}


def kind_of(mime: str) -> MediaKind:
    """What a media type shows; all that is neither image nor audio is a document."""
    return _KINDS.get(mime.partition("/")[0], "document")


def media_from(url: str, kind: MediaKind | None = None, name: str = "") -> Media:
    """What stands at an address: the content itself for a `data:` URL, else the address.

    `kind` is what the place it was found in calls for; without it the media type decides.
    """
    if url[:5].lower() != "data:":
        return Media(kind or "image", url=url, name=name)
    head, _, content = url[5:].partition(",")
    mime, *parameters = (part.strip() for part in head.split(";"))
    mime = mime.lower() or "text/plain"  # RFC 2397
    if any(parameter.lower() == "base64" for parameter in parameters):
        data = _SPACE.sub(
            "", _unescaped(content).decode("utf-8", "surrogateescape") if "%" in content else content
        )
        data += "=" * (-len(data) % 4)
    else:
        data = b64encode(_unescaped(content)).decode("ascii")
    return Media(kind or kind_of(mime), mime, data, name=name)


def url_of(media: Media) -> str:
    """The address that shows it: its own, or a `data:` URL of its content."""
    return f"data:{media_type(media)};base64,{media.data}" if media.data else media.url


def _unescaped(content: str) -> bytes:
    return _ESCAPED.sub(
        lambda found: bytes.fromhex(found[1].decode()), content.encode("utf-8", "surrogatepass")
    )

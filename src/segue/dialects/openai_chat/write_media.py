"""Media as parts of a Chat message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.data_urls import kind_of, url_of
from segue.dialects.openai_chat.rules import HELD_FILE
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from segue.conversation.blocks import Media

_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def write_media(media: Media) -> dict[str, Any] | None:
    """CHAT-52, CHAT-53: how the user shows images, documents and sounds; None if it is none of them."""
    mime = media_type(media)
    kind = kind_of(mime)
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url_of(media)}}
    if mime in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": media.data, "format": _SOUNDS[mime]}}
    if media.url.startswith(HELD_FILE) and not media.data:
        return {"type": "file", "file": {"file_id": media.url.removeprefix(HELD_FILE)}}
    if kind == "document" and media.data:
        name = media.name or f"document.{mime.rpartition('/')[2]}"
        return {"type": "file", "file": {"filename": name, "file_data": url_of(media)}}
    return None

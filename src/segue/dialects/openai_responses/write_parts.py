"""Media as parts of a Responses item."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.json_safe import encodable
from segue.dialects.data_urls import url_of
from segue.dialects.openai_responses import wire
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from segue.conversation.blocks import Media


def media_part(media: Media) -> wire.InputImage | wire.InputFile:
    if media_type(media).startswith("image/"):
        return wire.InputImage(url_of(media))
    if not media.data:
        return wire.InputFile(file_url=media.url)
    return wire.InputFile(encodable(media.name) or "document.pdf", url_of(media))

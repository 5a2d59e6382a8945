"""Estimates of tokens: of a request before it is sent, and the mark by which clients know one that they are shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from segue.conversation.blocks import Media
from segue.providers.token_counts import family_of, json_text, text_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.dialects.server_side.wire_server import ServerFacts
    from segue.gateway.conversations.turns import ClientTurn

BYTES_PER_TOKEN: Final = 4
TOKENS_PER_MEDIA: Final = 1500
"""Of an image or a document; providers count some hundred to some thousand."""
_HEADER: Final = "x-segue-usage"
_ESTIMATE: Final = "estimate"


def input_estimate(turn: ClientTurn) -> int:
    """A rough count of what a request holds, by its size."""
    media = [
        block for message in turn.conversation.messages for block in message.blocks if type(block) is Media
    ]
    encoded = sum(len(block.data) for block in media)
    size = len(turn.request.body)
    if turn.changed or turn.prepared.at:  # it refers to what we have put in
        size = max(size, len(json_text(turn.fields)))
    return max(size - encoded, 0) // BYTES_PER_TOKEN + len(media) * TOKENS_PER_MEDIA


def tokens_of(texts: Sequence[str], model: str) -> int:
    """An estimate for texts that a model makes vectors of."""
    family = family_of(model)
    return sum(math.ceil(text_tokens(text, family)) for text in texts)


def mark_estimate(headers: dict[str, str]) -> None:
    """The mark in the headers of a reply."""
    headers[_HEADER] = _ESTIMATE


def mark_of(server: ServerFacts) -> bytes:
    """The mark in a stream, whose headers are sent by then: a comment, on wires that have comments."""
    has_comments = server.keep_alive.startswith(b":")
    return f": {_HEADER}: {_ESTIMATE}\n\n".encode() if has_comments else b""

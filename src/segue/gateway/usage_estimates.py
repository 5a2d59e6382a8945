"""What a reply used, where its provider does not report it: clients plan by this number, so an estimate, marked as one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from msgspec import structs

from segue.conversation.blocks import Media
from segue.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta, UsageReported
from segue.conversation.usage import Usage
from segue.providers.token_estimates import estimate_request, family_of, text_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.events import Event
    from segue.dialects.server import ServerFacts
    from segue.gateway.turns import ClientTurn
    from segue.providers.adapter import ChatRequest
    from segue.providers.token_estimates import Family

BYTES_PER_TOKEN: Final = 4
TOKENS_PER_MEDIA: Final = 1500
"""Of an image or a document; providers count some hundred to some thousand."""
_AT_ONCE: Final = 10_000
_HEADER: Final = "x-segue-usage"
_ESTIMATE: Final = "estimate"


def missing_usage(request: ChatRequest, events: Sequence[Event]) -> Usage | None:
    """An estimate for a reply of these events; None if its usage was reported."""
    for event in reversed(events):  # it is mostly the last
        if type(event) is UsageReported and event.usage.total_tokens is not None:
            return None
    family = family_of(request.model)
    written = _written_tokens(events, family)
    return Usage(input_tokens=estimate_request(request, family), output_tokens=written)


def estimated_rest(turn: ClientTurn, counted: Usage, events: Sequence[Event], model: str) -> Usage:
    """What a reply used, with an estimate for what its provider did not count: of one that breaks off, it has often counted
    the beginning only."""
    written = _written_tokens(events, family_of(model))
    return structs.replace(
        counted,
        input_tokens=input_estimate(turn) if counted.input_tokens is None else counted.input_tokens,
        output_tokens=max(counted.output_tokens or 0, written),
    )


def input_estimate(turn: ClientTurn) -> int:
    """A rough count of what a request holds, by its size."""
    media = [
        block for message in turn.conversation.messages for block in message.blocks if type(block) is Media
    ]
    encoded = sum(len(block.data) for block in media)
    return max(len(turn.request.body) - encoded, 0) // BYTES_PER_TOKEN + len(media) * TOKENS_PER_MEDIA


def _written_tokens(events: Sequence[Event], family: Family) -> int:
    # Some at a time: of a reply without an end not even one more copy is made.
    portions = [events[at : at + _AT_ONCE] for at in range(0, len(events), _AT_ONCE)]
    return math.ceil(sum(text_tokens(_written(portion), family) for portion in portions))


def _written(events: Sequence[Event]) -> str:
    return "".join(
        [event.text for event in events if isinstance(event, TextDelta | ReasoningDelta | ArgumentsDelta)]
    )


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

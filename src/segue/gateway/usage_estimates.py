"""What a reply used, where its provider does not report it: clients plan by this number, so an estimate, marked as one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from segue.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta, UsageReported
from segue.conversation.usage import Usage
from segue.providers.token_estimates import estimate_request, family_of, text_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.events import Event
    from segue.dialects.server import ServerFacts
    from segue.providers.adapter import ChatRequest

_HEADER: Final = "x-segue-usage"
_ESTIMATE: Final = "estimate"


def missing_usage(request: ChatRequest, events: Sequence[Event]) -> Usage | None:
    """An estimate for a reply of these events; None if its usage was reported."""
    for event in reversed(events):  # it is mostly the last
        if type(event) is UsageReported and event.usage.total_tokens is not None:
            return None
    texts = [event.text for event in events if isinstance(event, TextDelta | ReasoningDelta | ArgumentsDelta)]
    family = family_of(request.model)
    written = math.ceil(text_tokens("".join(texts), family))
    return Usage(input_tokens=estimate_request(request, family), output_tokens=written)


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

"""What can go wrong on demand: one fault spoils one answer, in the order they were queued."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

FaultKind = Literal[
    "status",  # the provider's own error answer for `status`
    "error_mid_stream",  # the stream starts, then the provider's error event, then the end
    "cut",  # the connection breaks after `at_byte` bytes of the body
    "drip",  # the body arrives `size` bytes at a time, `seconds` apart
    "malformed",  # one frame of the body is broken JSON
    "content_type",  # a page of HTML instead of the API's answer
    "empty",  # status 200 and no body at all
    "silence",  # nothing is sent for `seconds`, then the connection breaks
]


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One misfortune."""

    kind: FaultKind = "status"
    status: int = 429
    retry_after: float | None = 1.0
    """Seconds that the provider asks to wait; None leaves the hint out."""
    at_byte: int = 0
    size: int = 1
    seconds: float = 0.01
    message: str = ""
    """Replaces the provider's usual wording."""
    provider: str = ""
    """Spoil only an answer of this provider ("" = of any)."""

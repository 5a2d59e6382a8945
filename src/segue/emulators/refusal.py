"""What an emulator answers instead of a reply: the rule that was broken and the provider's own words for it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Confidence = Literal["H", "M", "L"]


class Refusal(Struct, frozen=True, kw_only=True):
    """One broken rule. `rule` is its id in the rulebook, e.g. ``ANT-20``; the rest is what goes on the wire."""

    rule: str
    message: str
    status: int = 400
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    confidence: Confidence = "H"
    """H rules are always enforced, M rules when `Context.strict`, L rules only when asked for by id."""
    retry_after: float | None = None
    """Seconds after which the provider invites to try again, where it says so."""

"""What a provider says about its rate limits in the headers of a reply: how much is left, and when it is whole again.

OpenAI and whoever speaks like it write `x-ratelimit-remaining-requests` and a duration (`6m0s`), Anthropic
`anthropic-ratelimit-requests-remaining` and a date, others `x-ratelimit-remaining` and seconds, or a moment since 1970.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEADER: Final = re.compile(
    r"(?:x-)?ratelimit-(?P<what>limit|remaining|reset)(?:-(?P<kind>[a-z-]+))?"
    r"|anthropic-ratelimit-(?P<own_kind>[a-z-]+)-(?P<own_what>limit|remaining|reset)"
)
_DURATION: Final = re.compile(
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
_UNITS: Final = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_SINCE_1970: Final = 1e9
_MILLISECONDS: Final = 1e11
"""A number above it cannot be seconds since 1970: that would be the year 5138."""


@final
class RateLimit(Struct, frozen=True):
    """One limit of a provider, as its last reply had it."""

    kind: str
    """What is counted: `requests`, `tokens`, `input-tokens` …"""
    left: int
    seconds: float
    """Until it is whole again."""
    limit: int | None = None
    """The whole of it; None if the provider does not say."""


def rate_limits(headers: Mapping[str, str], now: float) -> tuple[RateLimit, ...]:
    """The limits that say both how much is left and until when. `now`: seconds since 1970."""
    found: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        match = _HEADER.fullmatch(name.lower()) if "ratelimit" in name.lower() else None
        if match is not None:
            kind = match["kind"] or match["own_kind"] or "requests"
            found.setdefault(kind, {})[match["what"] or match["own_what"]] = value.strip()
    limits = []
    for kind, said in found.items():
        left, seconds = said.get("remaining", ""), _seconds(said.get("reset", ""), now)
        if left.isascii() and left.isdigit() and seconds is not None:
            whole = said.get("limit", "")
            limit = int(whole[:18]) if whole.isascii() and whole.isdigit() else None
            limits.append(RateLimit(kind, int(left[:18]), seconds, limit))
    return tuple(limits)


def _seconds(reset: str, now: float) -> float | None:
    try:
        number = float(reset)
    except ValueError:
        return _duration(reset) if (moment := _moment(reset)) is None else max(0.0, moment - now)
    if number > _MILLISECONDS:
        number /= 1000
    seconds = number - now if number > _SINCE_1970 else number
    return max(0.0, seconds) if seconds < _SINCE_1970 else None


def _duration(text: str) -> float | None:
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    return sum(float(number or 0) * unit for number, unit in zip(match.groups(), _UNITS, strict=True))


def _moment(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None

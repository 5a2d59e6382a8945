"""Token counts as they stand in replies, read without trust: only what can be true becomes a usage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from segue.conversation.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_RUNS: Final = 1000
"""Of a provider's own tools, for one reply."""
_MOST_DOLLARS: Final = 10_000.0
_USUAL_TIERS: Final = frozenset(
    {"", "auto", "default", "standard", "on_demand", "unspecified", "global", "not_available"}
)
_TIER: Final = re.compile(r"[a-z0-9_-]{1,40}")
_TIER_PREFIX: Final = re.compile("service_tier_|on_demand_")
XAI_TICKS: Final = 10**10
"""In which xAI counts a dollar."""
MOST: Final = 2**53
"""Beyond it no reader of JSON agrees with another on a number."""


def believed(value: Any) -> int | None:
    """A whole number that may be a count; None if it is none."""
    return value if type(value) is int and 0 <= value < MOST else None


def count(held: Mapping[str, Any], name: str) -> int | None:
    """The count of this name; None if there is none."""
    return believed(held.get(name))


def total(*counts: int | None) -> int | None:
    """The sum of what was counted; None if nothing was."""
    known = [number for number in counts if number is not None]
    return sum(known) if known else None


def counted(
    read: int | None,
    written: int | None,
    cached: int | None = None,
    cache_write: int | None = None,
    reasoning: int | None = None,
    cache_hour: int | None = None,
    heard: int | None = None,
    spoken: int | None = None,
) -> Usage:
    """What a provider counted, as far as it can be true. Of parts that are more than their whole nobody knows which is wrong: then
    neither counts."""
    read, written, reasoning = believed(read), believed(written), believed(reasoning)
    cached, cache_write = believed(cached), believed(cache_write)
    if read is not None and (cached or 0) + (cache_write or 0) > read:
        read = cached = cache_write = None
    if reasoning is not None and written is not None and reasoning > written:
        reasoning = None
    return Usage(
        read,
        written,
        cached,
        cache_write,
        reasoning,
        _part(cache_hour, cache_write),
        _part(heard, read),
        _part(spoken, written),
    )


def _part(part: int | None, whole: int | None) -> int | None:
    """None if there is nothing of it, or more than there is of the whole."""
    if part is None:
        return None
    known = believed(part) or 0
    return known if 0 < known <= (whole or 0) else None


def with_price_facts(
    usage: Usage,
    *tiers: Any,
    web_searches: Any = None,
    file_searches: Any = None,
    other_tool_runs: Any = None,
    charged: Any = None,
) -> Usage:
    """The counts with all else that a reply's price depends on. `tiers`: words for how it was made, as the provider has them."""
    facts = {
        "web_searches": _runs(web_searches),
        "file_searches": _runs(file_searches),
        "other_tool_runs": _runs(other_tool_runs),
        "tier": " ".join([word for tier in tiers if (word := _unusual_tier(tier))]) or None,
        "charged": _dollars(charged),
    }
    known = {name: value for name, value in facts.items() if value is not None}
    return structs.replace(usage, **known) if known else usage


def _unusual_tier(word: Any) -> str:
    if not isinstance(word, str) or word in _USUAL_TIERS:
        return ""
    tier = _TIER_PREFIX.sub("", word.lower())
    if tier in _USUAL_TIERS:
        return ""
    return tier if _TIER.fullmatch(tier) else "unknown"


def _runs(value: Any) -> int | None:
    """None if there was none."""
    return min(believed(value) or 0, _MOST_RUNS) or None


def _dollars(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < _MOST_DOLLARS else None

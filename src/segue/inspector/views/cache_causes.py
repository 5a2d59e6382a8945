"""What became of the caches at the requests of a conversation: as the gateway forecast and saw it.

Of a saved session only the counts are known: there a request is measured by what the one before it left in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.gateway.prompt_caches.facts import cache_facts
from segue.gateway.prompt_caches.forecasts import CacheCause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.usage import Usage
    from segue.inspector.record.records import RequestRecord

_SLACK = 0.05


@final
class RequestCache(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the cache at one request."""

    request: str
    number: int
    predicted: int | None = None
    """Tokens that should have been read; None if the provider counts none."""
    reported: int | None = None
    held: int | None = None
    """Tokens that the cache had after the request before it."""
    reason: str = ""
    """The provider's own word for a loss."""
    lost: int = 0
    cause: CacheCause = "none"
    said: str = ""
    place: str = ""
    """Of the first difference: `tools[17]`."""
    first_byte: int | None = None
    """Of the prompt, where it first differs."""
    total_bytes: int = 0
    passed: float | None = None
    """Seconds since the request before it."""
    dollars: float | None = None
    """Lost."""
    confidence: str = ""
    """How sure it is what is known of this cache: H, M, L; empty if nothing is."""
    compared_to: str = ""


def outcomes_of(requests: Sequence[RequestRecord]) -> list[RequestCache]:
    """Of each request, in order."""
    found: list[RequestCache] = []
    last: dict[str, RequestRecord] = {}
    for one in requests:
        if not one.route or not one.usage.input_tokens:
            continue
        before = last.get(one.route)
        found.append(_seen(one, before) if one.cache is not None else _by_counts(one, before, cold=not last))
        last[one.route] = one
    return found


def misses_of(requests: Sequence[RequestRecord]) -> dict[str, RequestCache]:
    """Those that lost something, by the id of the request."""
    return {outcome.request: outcome for outcome in outcomes_of(requests) if outcome.lost}


def _seen(one: RequestRecord, before: RequestRecord | None) -> RequestCache:
    cache = one.cache
    assert cache is not None  # noqa: S101 - the caller has seen it
    return RequestCache(
        request=one.id,
        number=one.number,
        predicted=cache.expected,
        reported=cache.read,
        held=cache.held,
        reason=cache.reason,
        lost=cache.lost,
        cause=cache.cause,
        said=cache.said,
        place=cache.place,
        first_byte=cache.first_byte,
        total_bytes=cache.total_bytes,
        passed=cache.passed,
        dollars=cache.dollars,
        confidence=cache.confidence,
        compared_to=before.id if before is not None else "",
    )


def _by_counts(one: RequestRecord, before: RequestRecord | None, *, cold: bool) -> RequestCache:
    read, model = one.usage.cached_tokens, one.route.partition("/")[2]
    if before is None:
        said = "first request: nothing to read yet" if cold else f"first request to {model}: cold"
        cause: CacheCause = "first request" if cold else "model"
        return RequestCache(
            request=one.id, number=one.number, predicted=0, reported=read, cause=cause, said=said
        )
    held = _held(before.usage)
    lost = max(held - read, 0) if read is not None else 0
    facts = cache_facts(one.dialect, model)
    if lost <= max(held * _SLACK, facts.block) or held < facts.minimum:
        lost = 0
    passed = one.began - before.began
    gone = bool(facts.seconds and passed > facts.seconds)
    said = (
        f"{passed:.0f} s passed, and it is kept for {facts.seconds} s" if gone else "the cause is not known"
    )
    return RequestCache(
        request=one.id,
        number=one.number,
        predicted=None if read is None else 0 if gone else held,
        reported=read,
        held=held,
        lost=lost,
        cause="none" if not lost else "time to live" if gone else "unknown",
        said=said if lost else "",
        passed=passed,
        compared_to=before.id,
    )


def _held(usage: Usage) -> int:
    """Tokens that the cache had after a request: what it says it read and wrote, else all of it."""
    if usage.cache_write_tokens is not None:
        return (usage.cached_tokens or 0) + usage.cache_write_tokens
    return usage.input_tokens or 0

"""Where the time of requests went: to the client, the gateway, the provider until its first content, its stream."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.inspector.markup import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.inspector.record.records import RequestRecord


@final
class TimeSpent(Struct, frozen=True, kw_only=True):
    """Seconds by who took them."""

    client: float = 0.0
    """Within turns, from a reply to the next request: mostly its tools."""
    gateway: float = 0.0
    """All of a request in which no provider had it: reading, planning, rendering, pauses between attempts, remembering."""
    waiting: float = 0.0
    """Of providers, until their first content or their failure."""
    stream: float = 0.0
    """From their first content to the end."""


def client_pause(before: RequestRecord | None, one: RequestRecord) -> float | None:
    """Seconds that the client took within a turn, from the reply before to this request: mostly its tools."""
    return None if before is None or one.begins_turn else max(one.began - before.end, 0.0)


def time_of(one: RequestRecord, pause: float | None = None) -> TimeSpent:
    """`pause`: of its client before it."""
    at_providers = sum(attempt.seconds for attempt in one.attempts)
    stream = sum(
        attempt.seconds - attempt.first_content
        for attempt in one.attempts
        if attempt.first_content is not None
    )
    return TimeSpent(
        client=pause or 0.0,
        gateway=max(one.seconds - at_providers, 0.0),
        waiting=at_providers - stream,
        stream=stream,
    )


def time_of_all(requests: Sequence[RequestRecord]) -> TimeSpent:
    """Of a conversation."""
    pauses = [None, *(client_pause(before, one) for before, one in pairwise(requests))]
    found = [time_of(one, pause) for one, pause in zip(requests, pauses, strict=False)]
    return TimeSpent(
        client=sum(one.client for one in found),
        gateway=sum(one.gateway for one in found),
        waiting=sum(one.waiting for one in found),
        stream=sum(one.stream for one in found),
    )


def slowest(spent: TimeSpent) -> str:
    """One sentence that says what took longest; empty if no time is known, as of a saved session."""
    parts = [
        ("the client between requests of a turn", spent.client),
        ("the gateway itself", spent.gateway),
        ("the provider until its first content", spent.waiting),
        ("the provider’s stream", spent.stream),
    ]
    (first, most), *others = sorted(parts, key=lambda part: -part[1])
    if not most:
        return ""
    rest = ", ".join(f"{name} {words.seconds(seconds)}" for name, seconds in others)
    total = words.seconds(sum(seconds for _, seconds in parts))
    return f"Slowest: {first}, {words.seconds(most)} of {total}. Then {rest}."

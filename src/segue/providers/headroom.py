"""How much a provider still takes of each model's requests, as the headers of its last replies had it.

Whoever is about to ask finds out here that a limit is used up, and goes elsewhere or waits once, instead of being refused again
and again.
"""

from __future__ import annotations

from time import monotonic, time
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.dialects.replies.rate_limits import RateLimit, rate_limits
from segue.errors import RateLimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segue.errors import SegueError

LONGEST_WAIT: Final = 60.0
"""Seconds that a request waits in its process for a limit. Whoever is told of a longer one is asked all the same, and refuses."""
_MOST_MODELS: Final = 1000


@final
class Headroom(Struct, frozen=True):
    """What is left of one limit, and when it is whole again."""

    kind: str
    left: int
    resets_at: float
    """By the monotonic clock of this process."""
    limit: int | None = None
    """The whole of it; None if the provider does not say."""


class HeadroomBook:
    """The limits of one provider, by model."""

    def __init__(self, now: Callable[[], float] = monotonic, today: Callable[[], float] = time) -> None:
        self._now = now
        self._today = today
        self._limits: dict[str, dict[str, Headroom]] = {}

    def note(self, model: str, headers: Mapping[str, str], error: SegueError | None = None) -> None:
        """A reply has come. A refusal for too many requests says that nothing is left, also without such headers."""
        limits = rate_limits(headers, self._today())
        if isinstance(error, RateLimitError):
            used_up = [limit.seconds for limit in limits if not limit.left]
            if error.retry_after is None and used_up:
                error.retry_after = max(used_up)
            if error.retry_after:
                limits = (*limits, RateLimit("refused", 0, error.retry_after))
        elif "refused" in self._limits.get(model, {}):
            del self._limits[model]["refused"]
        if not limits:
            return
        if model not in self._limits and len(self._limits) >= _MOST_MODELS:
            self._limits.clear()
        now, known = self._now(), self._limits.setdefault(model, {})
        for limit in limits:
            known[limit.kind] = Headroom(limit.kind, limit.left, now + limit.seconds, limit.limit)

    def of(self, model: str) -> tuple[Headroom, ...]:
        """What is known of a model, without limits that are whole again."""
        now = self._now()
        return tuple(one for one in self._limits.get(model, {}).values() if one.resets_at > now)

    def last(self, model: str) -> tuple[Headroom, ...]:
        """As the last replies had it, also of limits that are whole again."""
        return tuple(self._limits.get(model, {}).values())

    def wait(self, model: str) -> float:
        """Seconds until a request for a model can succeed; 0 where nothing is known to stand in the way."""
        if model not in self._limits:
            return 0.0
        now = self._now()
        return max((one.resets_at - now for one in self.of(model) if one.left <= 0), default=0.0)

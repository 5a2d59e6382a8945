"""What a failure calls for, read from its remedy and status alone, and how long to wait before asking again."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.errors import SegueError

Cure: TypeAlias = Literal["again", "elsewhere", "larger", "none"]
"""Ask the same member again; ask another at once; ask one with a larger window; nothing that asking could help."""

_CLOSED = frozenset({401, 402, 403})
"""Nobody gets in by knocking again."""


@final
class Patience(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and how long one exchange may be tried at one member. Times are seconds."""

    attempts: int = 3
    """All of them, the first included."""
    first_pause: float = 0.5
    longest_pause: float = 30.0
    """Also of what a provider asks for: one that wants a longer pause is not waited for."""
    total: float = 60.0
    """Of all pauses before one answer."""


def cure_of(error: SegueError) -> Cure:
    if is_transient(error):
        return "again"
    if error.remedy == "shrink":
        return "larger"
    # A refusal with a status came from this very provider: the next one gets a request of its own making.
    if error.remedy in ("log_in", "pay") or status_of(error) is not None:
        return "elsewhere"
    return "none"


def is_transient(error: SegueError) -> bool:
    """Whether the same request may succeed later."""
    return error.remedy in ("wait", "go_elsewhere") and status_of(error) not in _CLOSED


def is_timeout(error: SegueError) -> bool:
    return error.code.endswith("timeout") or status_of(error) in (408, 504)


def status_of(error: SegueError) -> int | None:
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def retry_after_of(error: SegueError) -> float | None:
    """What the provider asked for, if that is a time at all."""
    asked = getattr(error, "retry_after", None)
    return max(0.0, asked) if isinstance(asked, (int, float)) and isfinite(asked) else None


def pause_before(
    attempt: int, error: SegueError, waited: float, patience: Patience, random: Callable[[], float]
) -> float | None:
    """Seconds to wait after failed attempt number `attempt`, counted from 1; nothing if it was the last.

    Doubling pauses with full jitter above a half, so that many who failed together do not come back together. What a
    provider asks for is the least that is waited.
    """
    if attempt >= patience.attempts:
        return None
    doubled = patience.first_pause * 2.0 ** min(attempt - 1, 30)
    pause = min(doubled, patience.longest_pause) * (0.5 + random() / 2)
    asked = retry_after_of(error)
    if asked is not None:
        if asked > patience.longest_pause:
            return None
        pause = max(pause, asked)
    return pause if waited + pause <= patience.total else None

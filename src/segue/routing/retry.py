"""What a failure calls for, read from its remedy and status alone, and how long to wait before asking again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, final

from msgspec import Meta, Struct

from segue.errors import is_transient, retry_after_of, status_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.errors import SegueError

Recovery: TypeAlias = Literal["retry", "other_member", "larger_member", "give_up"]
"""Ask the same member again; ask another at once; ask one with a larger window; no request could help."""

_Seconds: TypeAlias = Annotated[float, Meta(gt=0)]


@final
class RetrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a failed request is tried again at the same member."""

    attempts: Annotated[int, Meta(ge=1)] = 3
    """The first included."""
    first_pause: _Seconds = 0.5
    """Each further pause is twice as long."""
    longest_pause: _Seconds = 30.0
    """A provider that asks for more is left for another member."""
    longest_wait: _Seconds = 60.0
    """Where there is no other member, a provider that asks for more is waited for once, up to this."""
    total: _Seconds = 60.0
    """Of all pauses before one answer."""


def recovery_for(error: SegueError) -> Recovery:
    if is_transient(error):
        return "retry"
    if error.remedy == "shrink":
        return "larger_member"
    # A refusal with a status came from this very provider: the next one gets a request of its own making.
    if error.remedy in ("log_in", "pay") or status_of(error) is not None:
        return "other_member"
    return "give_up"


def is_timeout(error: SegueError) -> bool:
    return error.code.endswith("timeout") or status_of(error) in (408, 504)


def pause_before(
    attempt: int,
    error: SegueError,
    waited: float,
    retry: RetrySettings,
    random: Callable[[], float],
    *,
    alone: bool = False,
) -> float | None:
    """Seconds to wait after failed attempt number `attempt`, counted from 1; None if it was the last.

    Doubling pauses with full jitter above a half, so that many who failed together do not come back together. What a
    provider asks for is the least that is waited. `alone`: nobody else can be asked.
    """
    if attempt >= retry.attempts:
        return None
    doubled = retry.first_pause * 2.0 ** min(attempt - 1, 30)
    pause = min(doubled, retry.longest_pause) * (0.5 + random() / 2)
    asked = retry_after_of(error)
    if asked is not None:
        if asked > retry.longest_pause:
            return asked if alone and not waited and asked <= retry.longest_wait else None
        pause = max(pause, asked)
    return pause if waited + pause <= retry.total else None

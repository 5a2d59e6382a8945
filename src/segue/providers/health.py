"""Whether a provider answers, and what to do when it does not. Never raises."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from segue.errors import SegueError, TransportError
from segue.providers.capabilities import Health

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from segue.errors import Remedy
    from segue.providers.hosts.addresses import Address

LIMIT_SECONDS: Final = 10.0
_ADVICE: Final[Mapping[Remedy, str]] = {
    "fix": "Check the address and the settings of this provider.",
    "log_in": "The key is missing or refused.",
    "pay": "The account has no credit or quota left: look at its billing page.",
    "wait": "Wait a little and try again.",
    "go_elsewhere": "The provider has trouble of its own: use another one for now.",
    "shrink": "Send less.",
    "report": "Please report this.",
}


_BEFORE_A_REQUEST: Final = ("missing_key", "no_token", "missing_package")
"""Of credentials that a cloud's own tools have not found."""


async def check_health(
    provider: str, probe: Callable[[], Awaitable[object]], address: Address | None = None
) -> Health:
    """Call `probe`, which raises if something is wrong, and report."""
    started = time.perf_counter()
    timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    failure: Exception | None = None
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            await probe()
    except TimeoutError:
        failure = TransportError(f"No answer within {LIMIT_SECONDS:g} s.", code="health_timeout")
    except Exception as error:  # health is a report, whatever happens
        failure = error
    latency = time.perf_counter() - started
    if failure is None:
        return Health(status="healthy", provider=provider, timestamp=timestamp, latency=latency)
    return _unhealthy(provider, timestamp, failure, advice_for(failure, address), latency)


def health_of_settings(provider: str, error: SegueError) -> Health:
    """Of a provider that cannot be asked, because a setting is missing or wrong."""
    timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    return _unhealthy(provider, timestamp, error, error.hint or _ADVICE["fix"])


def _unhealthy(
    provider: str, timestamp: str, failure: Exception, advice: str, latency: float | None = None
) -> Health:
    return Health(
        status="unhealthy",
        provider=provider,
        timestamp=timestamp,
        latency=latency,
        error=failure.message if isinstance(failure, SegueError) else type(failure).__name__,
        advice=advice,
    )


def advice_for(error: Exception, address: Address | None = None) -> str:
    """What would help, judged by the kind of the error."""
    if not isinstance(error, SegueError):
        return _ADVICE["report"]
    if error.code == "CONNECTION_FAILED" and address is not None and address.start:
        return f"Is it running? Start it: {address.start}"
    if error.code in _BEFORE_A_REQUEST and address is not None and (address.token or address.service):
        return error.hint
    if error.remedy == "log_in" and address is not None:
        return f"{_ADVICE['log_in']} Store a new one: segue keys set {address.name}"
    return error.hint or _ADVICE[error.remedy]

"""Errors of the Gemini API, both ways."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.errors import IN_REPLY, FailedResponse, read_response, wire_errors
from segue.dialects.gemini.rules import NAME
from segue.errors import CredentialsError, ProviderError, QuotaError, RateLimitError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import SegueError


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    if isinstance(value, list) and value:  # a stream that failed before it began
        value = value[0]
    error = value.get("error") if isinstance(value, dict) else None
    return error_from(error if isinstance(error, dict) else {"message": error}, response, value or {})


def error_from(
    error: Mapping[str, Any], response: FailedResponse = IN_REPLY, envelope: Any = None
) -> ProviderError:
    """The error in an `error` object, of a response or of a stream (GEM-57)."""
    errors, code = wire_errors(NAME), error.get("status")
    message = response.words(error.get("message"))
    response = response.with_status(error.get("code"))
    details = [detail for detail in _listed(error.get("details")) if isinstance(detail, dict)]
    found = errors.kind_of(message, (code,), response.status)
    if found is RateLimitError and _used_up(details):
        found = QuotaError
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        found = CredentialsError
    return errors.error(
        response,
        found,
        message,
        code=code.lower() if isinstance(code, str) else "",
        wait=_delay(details),
        envelope={"error": error} if envelope is None else envelope,
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _used_up(details: list[dict[str, Any]]) -> bool:
    """Whether what ran out is the day's quota, so that waiting a little does not help (GEM-44)."""
    violations = [violation for detail in details for violation in _listed(detail.get("violations"))]
    return any(
        "PerDay" in str(violation.get("quotaId")) for violation in violations if isinstance(violation, dict)
    )


def _delay(details: list[dict[str, Any]]) -> float | None:
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                seconds = float(delay[:-1])
            except ValueError:
                continue
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    return None


# The other way


def encode_error(error: SegueError) -> tuple[int, bytes]:
    errors = wire_errors(NAME)
    status = errors.status_for(error)
    fields: dict[str, Any] = {
        "code": status,
        "message": errors.message_for(error),
        "status": errors.type_for(error)[0],
    }
    came = errors.own_members(error).get("error")
    if isinstance(came, dict) and came.get("details") is not None:  # they hold the delay too, and more
        fields["details"] = came["details"]
    elif isinstance(error, ProviderError) and error.retry_after is not None:
        delay = f"{error.retry_after:g}s"
        fields["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
    return status, msgspec.json.encode(errors.in_envelope({"error": fields}, error))

"""Errors of the Gemini API, both ways."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.errors import (
    IN_REPLY,
    STATUSES,
    TOOLS_UNSUPPORTED,
    FailedResponse,
    Phrases,
    class_of_error,
    in_envelope,
    message_for,
    own_member,
    read_response,
    status_for,
    with_envelope,
)
from segue.dialects.gemini.rules import NAME
from segue.errors import (
    ContentPolicyError,
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProviderError,
    QuotaError,
    RateLimitError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import SegueError

BY_STATUS: Mapping[str, type[ProviderError]] = {
    "INVALID_ARGUMENT": InvalidRequestError,
    "FAILED_PRECONDITION": InvalidRequestError,
    "OUT_OF_RANGE": InvalidRequestError,
    "NOT_FOUND": InvalidRequestError,
    "UNIMPLEMENTED": InvalidRequestError,
    "ALREADY_EXISTS": InvalidRequestError,
    "UNAUTHENTICATED": CredentialsError,
    "PERMISSION_DENIED": CredentialsError,
    "RESOURCE_EXHAUSTED": RateLimitError,
    "UNAVAILABLE": OverloadError,
    "INTERNAL": OverloadError,
    "UNKNOWN": OverloadError,
    "ABORTED": OverloadError,
    "CANCELLED": OverloadError,
    "DEADLINE_EXCEEDED": OverloadError,
}
_PHRASES: Phrases = (
    ("cachedcontent not found", InvalidRequestError),  # CCH-02: its status is that of a missing permission
    ("exceeds the maximum number of tokens", ContextLengthError),  # GEM-43
    ("input token count exceeds", ContextLengthError),
    ("api key not valid", CredentialsError),
    ("api key expired", CredentialsError),
    ("api key not found", CredentialsError),
    ("pass a valid api key", CredentialsError),
    ("enable billing", QuotaError),
    ("billing account", QuotaError),
    ("prepayment credits", QuotaError),
    ("content policy", ContentPolicyError),
    ("usage guidelines", ContentPolicyError),
)
_RETRY_IN = re.compile(r"retry in (\d+(?:\.\d+)?)s")


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    if isinstance(value, list) and value:  # a stream that failed before it began
        value = value[0]
    error = value.get("error") if isinstance(value, dict) else None
    read = error_from(error if isinstance(error, dict) else {"message": error}, response)
    return with_envelope(read, NAME, value)


def error_from(error: Mapping[str, Any], response: FailedResponse = IN_REPLY) -> ProviderError:
    """The error in an `error` object, of a response or of a stream (GEM-57)."""
    code, message = error.get("status"), error.get("message")
    message = response.words(message)
    response = response.with_status(error.get("code"))
    details = [detail for detail in _listed(error.get("details")) if isinstance(detail, dict)]
    found = class_of_error(message, _PHRASES, response.status, (BY_STATUS, code))
    if found is RateLimitError and _used_up(details):
        found = QuotaError
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        found = CredentialsError
    if "function calling is not enabled for" in message.lower():
        code = TOOLS_UNSUPPORTED
    code = code.lower() if isinstance(code, str) else ""
    read = response.error(found, message, code=code, retry_after=_delay(details, message))
    return with_envelope(read, NAME, {"error": error})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _used_up(details: list[dict[str, Any]]) -> bool:
    """Whether what ran out is the day's quota, so that waiting a little does not help (GEM-44)."""
    violations = [violation for detail in details for violation in _listed(detail.get("violations"))]
    return any(
        "PerDay" in str(violation.get("quotaId")) for violation in violations if isinstance(violation, dict)
    )


def _delay(details: list[dict[str, Any]], message: str) -> float | None:
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                seconds = float(delay[:-1])
            except ValueError:
                continue
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    found = _RETRY_IN.search(message)
    return float(found[1]) if found else None


# The other way

_STATUSES = {**STATUSES, QuotaError: 429}
_NAMES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    422: "FAILED_PRECONDITION",
    426: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_LEADS: Phrases = (
    ("The input token count exceeds the maximum number of tokens allowed", ContextLengthError),
    ("Refused by the content policy", ContentPolicyError),
    ("Quota used up, please enable billing", QuotaError),
)


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status = status_for(error, _STATUSES)
    fields: dict[str, Any] = {
        "code": status,
        "message": message_for(error, _LEADS, _PHRASES),
        "status": _NAMES.get(status, "INTERNAL"),
    }
    if isinstance(error, ProviderError) and error.retry_after is not None:
        delay = f"{error.retry_after:g}s"
        fields["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
    # Those that came hold the delay too, and more.
    fields["details"] = own_member(error, NAME, "details", fields.get("details"))
    if fields["details"] is None:
        del fields["details"]
    return status, msgspec.json.encode(in_envelope({"error": fields}, error, NAME))

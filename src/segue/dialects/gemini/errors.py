"""Refusals of the Gemini API, both ways."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.errors import (
    TOOLS_UNSUPPORTED,
    class_of_status,
    clean_body,
    excerpt,
    request_id,
    retry_after,
)
from segue.errors import (
    ContentPolicyError,
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProtocolError,
    ProviderError,
    QuotaError,
    RateLimitError,
    TranscriptError,
    TransportError,
    UsageError,
)
from segue.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
_PHRASES: tuple[tuple[str, type[ProviderError]], ...] = (
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
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    if isinstance(told, list) and told:  # a stream that failed before it began
        told = told[0]
    error = told.get("error") if isinstance(told, dict) else None
    return refusal(
        error if isinstance(error, dict) else {"message": error} if isinstance(error, str) else {},
        status=status,
        request=request_id(headers),
        wait=retry_after(headers),
        body=body,
    )


def refusal(
    error: Mapping[str, Any],
    *,
    status: int | None = None,
    request: str = "",
    wait: float | None = None,
    body: bytes = b"",
) -> ProviderError:
    """The `error` object of a refusal, in an answer of its own or in a stream (GEM-57)."""
    word, code, message = error.get("status"), error.get("code"), error.get("message")
    message = redact_text(message) if isinstance(message, str) else ""
    if status is None and isinstance(code, int) and not isinstance(code, bool):
        status = code
    details = [detail for detail in _listed(error.get("details")) if isinstance(detail, dict)]
    found = _by_phrase(message)
    if found is None and isinstance(word, str):
        found = BY_STATUS.get(word)
    if found is None:
        found = class_of_status(status) if status is not None else OverloadError
    if found is RateLimitError and _used_up(details):
        found = QuotaError
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        found = CredentialsError
    if "function calling is not enabled for" in message.lower():
        word = TOOLS_UNSUPPORTED
    return found(
        message or excerpt(body, status or 0),
        code=word.lower() if isinstance(word, str) else "",
        status=status,
        request_id=request,
        retry_after=wait if wait is not None else _delay(details, message),
        body=clean_body(body),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _by_phrase(message: str) -> type[ProviderError] | None:
    lowered = message.lower()
    return next((found for phrase, found in _PHRASES if phrase in lowered), None)


def _used_up(details: list[dict[str, Any]]) -> bool:
    """Whether what ran out is the day's quota, so that waiting a little does not help (GEM-44)."""
    return any("PerDay" in str(violation.get("quotaId")) for violation in _violations(details))


def _violations(details: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for detail in details:
        for violation in _listed(detail.get("violations")):
            if isinstance(violation, dict):
                yield violation


def _delay(details: list[dict[str, Any]], message: str) -> float | None:
    for detail in details:
        told = detail.get("retryDelay")
        if isinstance(told, str) and told.endswith("s"):
            try:
                seconds = float(told[:-1])
            except ValueError:
                continue
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    found = _RETRY_IN.search(message)
    return float(found[1]) if found else None


_SPELLED: tuple[tuple[type[SegueError], int, str], ...] = (
    (CredentialsError, 401, "UNAUTHENTICATED"),
    (QuotaError, 429, "RESOURCE_EXHAUSTED"),
    (RateLimitError, 429, "RESOURCE_EXHAUSTED"),
    (OverloadError, 503, "UNAVAILABLE"),
    (ContextLengthError, 400, "INVALID_ARGUMENT"),
    (ContentPolicyError, 400, "INVALID_ARGUMENT"),
    (InvalidRequestError, 400, "INVALID_ARGUMENT"),
    (TranscriptError, 400, "INVALID_ARGUMENT"),
    (UsageError, 400, "INVALID_ARGUMENT"),
    (TransportError, 504, "DEADLINE_EXCEEDED"),
    (ProtocolError, 502, "UNAVAILABLE"),
)
_PHRASE_OF: Mapping[type[SegueError], str] = {
    ContextLengthError: "The input token count exceeds the maximum number of tokens allowed",
    ContentPolicyError: "Refused by the content policy",
    QuotaError: "Quota used up, please enable billing",
}
"""Words that clients look for, since this wire has no status for these."""


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status, word = next(
        ((status, word) for known, status, word in _SPELLED if isinstance(error, known)), (500, "INTERNAL")
    )
    if isinstance(error, InvalidRequestError) and error.status == 404:
        status, word = 404, "NOT_FOUND"
    message = redact_text(str(error)) or "The request failed."
    phrase = _PHRASE_OF.get(type(error), "")
    if phrase and _by_phrase(message) is not type(error):
        message = f"{phrase}: {message}"
    told: dict[str, Any] = {"code": status, "message": message, "status": word}
    if isinstance(error, ProviderError) and error.retry_after is not None:
        delay = f"{error.retry_after:g}s"
        told["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
    return status, msgspec.json.encode({"error": told})

"""Refusals of the Messages wire, both ways (ANT-01)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.anthropic_messages.wire import ENCODER
from segue.dialects.errors import (
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
    SegueError,
    TranscriptError,
    TransportError,
    UsageError,
)
from segue.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

BY_TYPE: Mapping[Any, type[ProviderError]] = {
    "invalid_request_error": InvalidRequestError,
    "authentication_error": CredentialsError,
    "billing_error": QuotaError,
    "permission_error": CredentialsError,
    "not_found_error": InvalidRequestError,
    "conflict_error": OverloadError,
    "request_too_large": ContextLengthError,
    "rate_limit_error": RateLimitError,
    "api_error": OverloadError,
    "timeout_error": OverloadError,
    "overloaded_error": OverloadError,
}
_BY_DETAIL: Mapping[Any, type[ProviderError]] = {"enforced_spend_limit_reached": QuotaError}

_PHRASES: tuple[tuple[str, type[ProviderError]], ...] = (
    ("prompt is too long", ContextLengthError),  # ANT-80
    ("exceed context limit", ContextLengthError),  # ANT-80
    ("exceeds the maximum size", ContextLengthError),  # ANT-81
    ("credit balance is too low", QuotaError),
    ("specified api usage limits", QuotaError),
    ("content filtering policy", ContentPolicyError),
)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    error = told.get("error") if isinstance(told, dict) else None
    if not isinstance(error, dict):
        error = {}
    named = told.get("request_id") if isinstance(told, dict) else None
    return refusal(
        error,
        status=status,
        request=named if isinstance(named, str) else request_id(headers),
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
    """The `error` object of a refusal, wherever it came: in an answer or in a stream (ANT-75)."""
    kind, details = error.get("type"), error.get("details")
    detail = details.get("error_code") if isinstance(details, dict) else None
    message = error.get("message")
    message = redact_text(message) if isinstance(message, str) and message else ""
    found = _by_phrase(message) or _of(_BY_DETAIL, detail) or _of(BY_TYPE, kind)
    if found is None:
        found = class_of_status(status) if status is not None else OverloadError
    code = detail if isinstance(detail, str) else kind
    return found(
        message or excerpt(body, status or 0),
        code=code if isinstance(code, str) else "",
        status=status,
        request_id=request,
        retry_after=wait,
        body=clean_body(body),
    )


def _of(table: Mapping[Any, type[ProviderError]], key: Any) -> type[ProviderError] | None:
    return table.get(key) if isinstance(key, str) else None


def _by_phrase(message: str) -> type[ProviderError] | None:
    lowered = message.lower()
    return next((found for phrase, found in _PHRASES if phrase in lowered), None)


_SPELLED: tuple[tuple[type[SegueError], int, str], ...] = (
    (CredentialsError, 401, "authentication_error"),
    (QuotaError, 402, "billing_error"),
    (RateLimitError, 429, "rate_limit_error"),
    (OverloadError, 529, "overloaded_error"),
    (ContextLengthError, 400, "invalid_request_error"),
    (ContentPolicyError, 400, "invalid_request_error"),
    (InvalidRequestError, 400, "invalid_request_error"),
    (TranscriptError, 400, "invalid_request_error"),
    (UsageError, 400, "invalid_request_error"),
    (TransportError, 504, "timeout_error"),
    (ProtocolError, 502, "api_error"),
)
_PHRASE_OF: Mapping[type[SegueError], str] = {
    ContextLengthError: "prompt is too long",
    ContentPolicyError: "content filtering policy",
}
"""Words that clients look for, since this wire has no type for these."""


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status, kind = next(
        ((status, kind) for known, status, kind in _SPELLED if isinstance(error, known)), (500, "api_error")
    )
    if isinstance(error, InvalidRequestError) and error.status == 404:
        status, kind = 404, "not_found_error"
    message = redact_text(str(error)) or "The request failed."
    phrase = _PHRASE_OF.get(type(error), "")
    if phrase and phrase not in message.lower():
        message = f"{phrase}: {message}"
    body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": message}}
    if isinstance(error, ProviderError) and error.request_id:
        body["request_id"] = error.request_id
    return status, ENCODER.encode(body)

"""Refusals of Mistral, both ways: its own envelope, and the one of its schema checks."""

from __future__ import annotations

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
    from collections.abc import Mapping

    from segue.errors import SegueError

BY_TYPE: Mapping[str, type[ProviderError]] = {
    "invalid_request_message_order": InvalidRequestError,
    "invalid_function_call": InvalidRequestError,
    "invalid_request_prompt": InvalidRequestError,
    "invalid_request_error": InvalidRequestError,
    "invalid_request_invalid_args": InvalidRequestError,
    "invalid_model": InvalidRequestError,
    "invalid_authentication": CredentialsError,
    "unauthorized": CredentialsError,
    "rate_limited": RateLimitError,
    "rate_limit_error": RateLimitError,
    "service_tier_capacity_exceeded": RateLimitError,
    "internal_server_error": OverloadError,
    "service_unavailable": OverloadError,
    "unreachable_backend": OverloadError,
}
_PHRASES: tuple[tuple[str, type[ProviderError]], ...] = (
    ("maximum context length", ContextLengthError),  # MIS-16
    ("too large for model", ContextLengthError),
    ("too many tokens", ContextLengthError),
    ("exceeds the model's context", ContextLengthError),
    ("invalid api key", CredentialsError),
    ("unauthorized", CredentialsError),
    ("no payment method", QuotaError),
    ("monthly limit", QuotaError),
    ("usage limit", QuotaError),
    ("quota exceeded", QuotaError),
    ("moderation", ContentPolicyError),
    ("guardrail", ContentPolicyError),
)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    return refusal(
        told if isinstance(told, dict) else {},
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
    """The envelope of a refusal, in an answer of its own or in a stream."""
    inner = error.get("error")
    if isinstance(inner, dict):  # as the hosts of Mistral's models elsewhere wrap it
        error = {**error, **inner}
    message, path = _message(inner if isinstance(inner, str) else error)
    kind, code = error.get("type"), error.get("code")
    raw_status = error.get("raw_status_code")
    if status is None and isinstance(raw_status, int) and not isinstance(raw_status, bool):
        status = raw_status
    found = _by_phrase(message) if status is None or status < 500 else None
    if found is None and isinstance(kind, str):
        found = BY_TYPE.get(kind)
    if found is None:
        found = class_of_status(status) if status is not None else OverloadError
    if "function calling is not enabled for" in message.lower():
        kind = TOOLS_UNSUPPORTED
    named = error.get("request_id")
    return found(
        redact_text(message) or excerpt(body, status or 0),
        code=kind if isinstance(kind, str) else str(code) if isinstance(code, str | int) else "",
        path=path,
        status=status,
        request_id=named if isinstance(named, str) else request,
        retry_after=wait,
        body=clean_body(body),
    )


def _message(error: Any) -> tuple[str, str]:
    """The words of a refusal, and the place in the request they speak of."""
    if isinstance(error, str):
        return error, ""
    told = error.get("message")
    if told is None:
        told = error.get("detail")
    if isinstance(told, dict):
        told = told.get("detail")
    if not isinstance(told, list):
        return (told if isinstance(told, str) else ""), ""
    faults = [fault for fault in told if isinstance(fault, dict)]
    if not faults:
        return "", ""
    words = "; ".join(f"{_place(fault)}: {fault.get('msg')}" for fault in faults)
    return words, _place(faults[0])


def _place(fault: Mapping[str, Any]) -> str:
    location = fault.get("loc")
    steps = [step for step in location if step != "body"] if isinstance(location, list) else []
    place = ""
    for step in steps:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else str(step)
    return place


def _by_phrase(message: str) -> type[ProviderError] | None:
    lowered = message.lower()
    return next((found for phrase, found in _PHRASES if phrase in lowered), None)


_SPELLED: tuple[tuple[type[SegueError], int, str, str | None], ...] = (
    (CredentialsError, 401, "invalid_authentication", "1100"),
    (QuotaError, 402, "invalid_request_error", None),
    (RateLimitError, 429, "rate_limited", "1300"),
    (OverloadError, 503, "service_unavailable", "1000"),
    (ContextLengthError, 400, "invalid_request_prompt", "3051"),
    (ContentPolicyError, 400, "invalid_request_prompt", None),
    (InvalidRequestError, 400, "invalid_request_error", None),
    (TranscriptError, 400, "invalid_request_error", None),
    (UsageError, 400, "invalid_request_error", None),
    (TransportError, 504, "unreachable_backend", None),
    (ProtocolError, 502, "unreachable_backend", None),
)
_PHRASE_OF: Mapping[type[SegueError], str] = {
    ContextLengthError: "Prompt too large for model with its maximum context length",
    ContentPolicyError: "Refused by moderation",
    QuotaError: "Monthly limit reached",
}
"""Words that clients look for, since this wire has no type for these."""


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status, kind, code = next(
        ((status, kind, code) for known, status, kind, code in _SPELLED if isinstance(error, known)),
        (500, "internal_server_error", "1000"),
    )
    if isinstance(error, InvalidRequestError) and error.status == 404:
        status, kind, code = 404, "invalid_model", "1500"
    message = redact_text(str(error)) or "The request failed."
    phrase = _PHRASE_OF.get(type(error), "")
    if phrase and _by_phrase(message) is not type(error):
        message = f"{phrase}: {message}"
    told = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return status, msgspec.json.encode(told)

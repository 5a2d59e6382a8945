"""Errors of Mistral, both ways: its own envelope, and the one of its schema checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.errors import (
    IN_REPLY,
    TOOLS_UNSUPPORTED,
    FailedResponse,
    Phrases,
    class_of_error,
    fault_place,
    in_envelope,
    message_for,
    read_response,
    status_for,
    with_envelope,
)
from segue.dialects.mistral.rules import NAME
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
_PHRASES: Phrases = (
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
    response, value = read_response(status, headers, body)
    return error_from(value if isinstance(value, dict) else {}, response)


def error_from(error: Mapping[str, Any], response: FailedResponse = IN_REPLY) -> ProviderError:
    """The error in an envelope, of a response or of a stream."""
    inner = error.get("error")
    if isinstance(inner, dict):  # as the hosts of Mistral's models elsewhere wrap it
        error = {**error, **inner}
    message, path = _message(inner if isinstance(inner, str) else error)
    message = response.words(message)
    kind, code = error.get("type"), error.get("code")
    response = response.with_status(error.get("raw_status_code"))
    status = response.status
    phrases = _PHRASES if status is None or status < 500 else ()
    found = class_of_error(message, phrases, status, (BY_TYPE, kind))
    if "function calling is not enabled for" in message.lower():
        kind = TOOLS_UNSUPPORTED
    code = kind if isinstance(kind, str) else str(code) if isinstance(code, int) else code
    read = response.error(
        found, message, code=code, path=path or error.get("param"), request_id=error.get("request_id")
    )
    return with_envelope(read, NAME, error)


def _message(error: Any) -> tuple[str, str]:
    """The message of an error, and the place in the request that it is about."""
    if isinstance(error, str):
        return error, ""
    message = error.get("message")
    if message is None:
        message = error.get("detail")
    if isinstance(message, dict):
        message = message.get("detail")
    if not isinstance(message, list):
        return (message if isinstance(message, str) else ""), ""
    faults = [fault for fault in message if isinstance(fault, dict)]
    if not faults:
        return "", ""
    return "; ".join(f"{fault_place(fault)}: {fault.get('msg')}" for fault in faults), fault_place(faults[0])


# The other way

_TYPES: Mapping[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_authentication", "1100"),
    402: ("invalid_request_error", None),
    404: ("invalid_model", "1500"),
    429: ("rate_limited", "1300"),
    502: ("unreachable_backend", None),
    503: ("service_unavailable", "1000"),
    504: ("unreachable_backend", None),
}
"""Type and code."""
_LEADS: Phrases = (
    ("Prompt too large for model with its maximum context length", ContextLengthError),
    ("Refused by moderation", ContentPolicyError),
    ("Monthly limit reached", QuotaError),
)


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status = status_for(error)
    unknown = ("internal_server_error", "1000") if status >= 500 else ("invalid_request_error", None)
    kind, code = _TYPES.get(status, unknown)
    if isinstance(error, ContextLengthError):
        kind, code = "invalid_request_prompt", "3051"
    elif isinstance(error, ContentPolicyError):
        kind = "invalid_request_prompt"
    if isinstance(error, ProviderError) and error.wire == NAME and isinstance(error.members.get("type"), str):
        kind, code = error.members["type"], error.members.get("code")
    message = message_for(error, _LEADS, _PHRASES)
    fields = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return status, msgspec.json.encode(in_envelope(fields, error, NAME))

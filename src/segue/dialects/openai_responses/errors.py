"""Refusals of the Responses wire, both ways: the error object of all OpenAI endpoints (OAI-03, RESP-63)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.errors import (
    class_of_status,
    clean_body,
    excerpt,
    request_id,
    retry_after,
)
from segue.dialects.openai_responses.wire import ENCODER
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

BY_CODE: Mapping[str, type[ProviderError]] = {
    "context_length_exceeded": ContextLengthError,
    "string_above_max_length": ContextLengthError,
    "insufficient_quota": QuotaError,
    "billing_hard_limit_reached": QuotaError,
    "billing_not_active": QuotaError,
    "rate_limit_exceeded": RateLimitError,
    "invalid_api_key": CredentialsError,
    "account_deactivated": CredentialsError,
    "content_policy_violation": ContentPolicyError,
    "content_filter": ContentPolicyError,
    "moderation_blocked": ContentPolicyError,
    "bio_policy": ContentPolicyError,
    "misalignment_policy_violation": ContentPolicyError,
    "cyber_policy": ContentPolicyError,
    "invalid_prompt": ContentPolicyError,
    "server_error": OverloadError,
    "internal_error": OverloadError,
    "server_is_overloaded": OverloadError,
    "slow_down": OverloadError,
    "vector_store_timeout": OverloadError,
    "model_not_found": InvalidRequestError,
    "invalid_encrypted_content": InvalidRequestError,
    "previous_response_not_found": InvalidRequestError,
}
BY_TYPE: Mapping[str, type[ProviderError]] = {
    "insufficient_quota": QuotaError,
    "tokens": RateLimitError,
    "requests": RateLimitError,
    "rate_limit_error": RateLimitError,
    "authentication_error": CredentialsError,
    "permission_error": CredentialsError,
    "server_error": OverloadError,
    "service_unavailable_error": OverloadError,
}
_PHRASES: tuple[tuple[str, type[ProviderError]], ...] = (
    ("exceeds the context window", ContextLengthError),  # RESP-66
    ("maximum context length", ContextLengthError),  # CHAT-70
    ("request too large for", ContextLengthError),  # OAI-03: waiting does not make it smaller
    ("exceeded your current quota", QuotaError),
    ("incorrect api key", CredentialsError),
    ("flagged as potentially violating", ContentPolicyError),
)
_WAIT = re.compile(r"try again in (?:(\d{1,6})m(?!s))?(?:([\d.]{1,12})(ms|s))?", re.IGNORECASE)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    return refusal(
        _error_in(told),
        status=status,
        request=request_id(headers),
        wait=retry_after(headers),
        body=body,
    )


def _error_in(told: Any) -> Mapping[str, Any]:
    """Servers that only resemble OpenAI say `error` with a text, or `detail`."""
    if not isinstance(told, dict):
        return {}
    error = told.get("error", told.get("detail"))
    if isinstance(error, dict):
        return error
    if isinstance(error, str):
        return {"message": error, "code": told.get("code")}
    return told if isinstance(told.get("message"), str) else {}


def refusal(
    error: Mapping[str, Any],
    *,
    status: int | None = None,
    request: str = "",
    wait: float | None = None,
    body: bytes = b"",
) -> ProviderError:
    """The error object, wherever it came: in an answer, in a failed response or in a stream."""
    code, kind, param = error.get("code"), error.get("type"), error.get("param")
    message = error.get("message")
    message = redact_text(message) if isinstance(message, str) and message else ""
    found = _by_phrase(message) or _of(BY_CODE, code) or _of(BY_TYPE, kind)
    if found is None:
        found = class_of_status(status) if status is not None else _unsaid(kind)
    if found is ContextLengthError and code == "string_above_max_length" and _is_about_an_id(param):
        found = InvalidRequestError
    told = code if isinstance(code, str) else kind
    return found(
        message or excerpt(body, status or 0),
        code=told if isinstance(told, str) else "",
        path=param if isinstance(param, str) else "",
        status=status,
        request_id=request,
        retry_after=wait if wait is not None else _wait_in(message),
        body=clean_body(body),
    )


def _unsaid(kind: Any) -> type[ProviderError]:
    return InvalidRequestError if kind == "invalid_request_error" else OverloadError


def _is_about_an_id(param: Any) -> bool:
    """Ids and names that are too long are mistakes, not too much conversation (RESP-20, RESP-22)."""
    return isinstance(param, str) and param.rpartition(".")[2] in ("id", "call_id", "name")


def _of(table: Mapping[str, type[ProviderError]], key: Any) -> type[ProviderError] | None:
    return table.get(key) if isinstance(key, str) else None


def _by_phrase(message: str) -> type[ProviderError] | None:
    lowered = message.lower()
    return next((found for phrase, found in _PHRASES if phrase in lowered), None)


def _wait_in(message: str) -> float | None:
    """The wait that a rate limit tells in its sentence: 12ms, 3.89s, 6m0s."""
    found = _WAIT.search(message)
    if found is None or not (found[1] or found[2]):
        return None
    try:
        seconds = float(found[2] or 0) * (0.001 if (found[3] or "").lower() == "ms" else 1)
    except ValueError:
        return None
    return int(found[1] or 0) * 60 + seconds


_SPELLED: tuple[tuple[type[SegueError], int, str, str | None], ...] = (
    (CredentialsError, 401, "invalid_request_error", "invalid_api_key"),
    (QuotaError, 429, "insufficient_quota", "insufficient_quota"),
    (RateLimitError, 429, "requests", "rate_limit_exceeded"),
    (ContextLengthError, 400, "invalid_request_error", "context_length_exceeded"),
    (ContentPolicyError, 400, "invalid_request_error", "content_policy_violation"),
    (OverloadError, 503, "server_error", "server_error"),
    (InvalidRequestError, 400, "invalid_request_error", None),
    (TranscriptError, 400, "invalid_request_error", None),
    (UsageError, 400, "invalid_request_error", None),
    (TransportError, 504, "server_error", "server_error"),
    (ProtocolError, 502, "server_error", "server_error"),
)


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status, told = error_object(error)
    return status, ENCODER.encode({"error": told})


def error_object(error: SegueError) -> tuple[int, dict[str, Any]]:
    """The status and the error object that say this on the wire."""
    fitting = (spelled for spelled in _SPELLED if isinstance(error, spelled[0]))
    _, status, kind, code = next(fitting, (SegueError, 500, "server_error", "server_error"))
    if isinstance(error, InvalidRequestError) and error.status == 404:
        status, code = 404, code or "model_not_found"
    if code is None and error.code in BY_CODE:
        code = error.code
    message = redact_text(f"{error.message} {error.hint}".strip()) or "The request failed."
    return status, {"message": message, "type": kind, "param": error.path or None, "code": code}

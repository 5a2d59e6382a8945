"""Errors of the Responses wire, both ways: the error object of all OpenAI endpoints (OAI-03, RESP-63)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.errors import (
    IN_REPLY,
    STATUSES,
    FailedResponse,
    Phrases,
    class_of_error,
    entry_for,
    first_fault_place,
    in_envelope,
    own_member,
    read_response,
    status_for,
    wait_in,
    with_envelope,
)
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.openai_responses.wire import ENCODER
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
from segue.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import SegueError

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
_PHRASES: Phrases = (
    ("exceeds the context window", ContextLengthError),  # RESP-66
    ("maximum context length", ContextLengthError),  # CHAT-70
    ("request too large for", ContextLengthError),  # OAI-03: waiting does not make it smaller
    ("exceeded your current quota", QuotaError),
    ("incorrect api key", CredentialsError),
    ("flagged as potentially violating", ContentPolicyError),
)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    return with_envelope(error_from(_error_in(value), response), NAME, value)


def _error_in(value: Any) -> Mapping[str, Any]:
    """Servers that only resemble OpenAI have `error` with a text, or `detail`."""
    if not isinstance(value, dict):
        return {}
    error = value.get("error", value.get("detail"))
    if isinstance(error, dict):
        return error
    if isinstance(error, str):
        return {"message": error, "code": value.get("code")}
    if place := first_fault_place(error):
        return {"param": place}
    return value if isinstance(value.get("message"), str) else {}


def error_from(error: Mapping[str, Any], response: FailedResponse = IN_REPLY) -> ProviderError:
    """The error in an error object, of a response, of a failed reply or of a stream."""
    code, kind, param, message = (error.get(name) for name in ("code", "type", "param", "message"))
    message = response.words(message)
    status = 400 if response.status is None and kind == "invalid_request_error" else response.status
    found = class_of_error(message, _PHRASES, status, (BY_CODE, code), (BY_TYPE, kind))
    if found is ContextLengthError and code == "string_above_max_length" and _is_about_an_id(param):
        found = InvalidRequestError
    code = code if isinstance(code, str) else kind
    read = response.error(found, message, code=code, path=param, retry_after=wait_in(message))
    return with_envelope(read, NAME, {"error": error})


def _is_about_an_id(param: Any) -> bool:
    """Ids and names that are too long are mistakes, not too much conversation (RESP-20, RESP-22)."""
    return isinstance(param, str) and param.rpartition(".")[2] in ("id", "call_id", "name")


# The other way

_STATUSES = {**STATUSES, QuotaError: 429}
_CODES: Mapping[type[SegueError], str] = {
    CredentialsError: "invalid_api_key",
    QuotaError: "insufficient_quota",
    RateLimitError: "rate_limit_exceeded",
    ContextLengthError: "context_length_exceeded",
    ContentPolicyError: "content_policy_violation",
}
_TYPES: Mapping[type[SegueError], str] = {QuotaError: "insufficient_quota", RateLimitError: "requests"}


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status, fields = error_object(error)
    return status, ENCODER.encode(in_envelope({"error": fields}, error, NAME))


def error_object(error: SegueError) -> tuple[int, dict[str, Any]]:
    """The status and the error object of an error of ours."""
    status = status_for(error, _STATUSES)
    kind, code = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    code = entry_for(error, _CODES, code)
    if code is None and status == 404 and error.path in ("", "model"):
        code = "model_not_found"
    if code is None and error.code in BY_CODE:
        code = error.code
    code = own_member(error, NAME, "code", code)
    message = redact_text(f"{error.message} {error.hint}".strip()) or "The request failed."
    fields = {"message": message, "type": entry_for(error, _TYPES, kind), "param": error.path or None}
    return status, {**fields, "code": code}

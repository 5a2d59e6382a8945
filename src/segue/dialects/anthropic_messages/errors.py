"""Errors of the Messages wire, both ways (ANT-01)."""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Any

from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.anthropic_messages.wire import ENCODER
from segue.dialects.errors import (
    IN_REPLY,
    STATUSES,
    FailedResponse,
    Phrases,
    class_of_error,
    in_envelope,
    message_for,
    read_response,
    status_for,
    with_envelope,
)
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

NAME = ANTHROPIC.target.dialect
BY_TYPE: Mapping[str, type[ProviderError]] = {
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
_BY_DETAIL: Mapping[str, type[ProviderError]] = {"enforced_spend_limit_reached": QuotaError}

_PHRASES: Phrases = (
    ("prompt is too long", ContextLengthError),  # ANT-80
    ("exceed context limit", ContextLengthError),  # ANT-80
    ("exceeds the maximum size", ContextLengthError),  # ANT-81
    ("credit balance is too low", QuotaError),
    ("specified api usage limits", QuotaError),
    ("content filtering policy", ContentPolicyError),
)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    fields = value if isinstance(value, dict) else {}
    error = fields.get("error")
    read = error_from(error if isinstance(error, dict) else {}, response, fields.get("request_id"))
    return with_envelope(read, NAME, fields)


def error_from(
    error: Mapping[str, Any], response: FailedResponse = IN_REPLY, request_id: Any = ""
) -> ProviderError:
    """The error in an `error` object, of a response or of a stream (ANT-75)."""
    kind, details, message = error.get("type"), error.get("details"), error.get("message")
    detail = details.get("error_code") if isinstance(details, dict) else None
    message = response.words(message)
    found = class_of_error(message, _PHRASES, response.status, (_BY_DETAIL, detail), (BY_TYPE, kind))
    code = detail if isinstance(detail, str) else kind
    path = "stream" if message.startswith("stream: ") else ""  # ANT-03: a message begins with its place
    read = response.error(found, message, code=code, path=path, request_id=request_id)
    return with_envelope(read, NAME, {"error": error})


# The other way

_STATUSES = {**STATUSES, OverloadError: 529, QuotaError: 429}
"""A client that gets 402 for a spent budget does not know what to do with it."""
_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    415: "invalid_request_error",
    422: "invalid_request_error",
    426: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_LEADS: Phrases = (
    ("prompt is too long", ContextLengthError),
    ("content filtering policy", ContentPolicyError),
)


_INDEX = re.compile(r"\[(\d+)\]")


def _with_dotted_path(error: SegueError) -> SegueError:
    """ANT-03: a message begins with its place, and this wire writes messages.0.content.1."""
    if "[" not in error.path:
        return error
    shown = copy(error)
    shown.path = _INDEX.sub(r".\1", error.path)
    return shown


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status = status_for(error, _STATUSES)
    kind = "billing_error" if isinstance(error, QuotaError) else _TYPES.get(status, "api_error")
    fields = {"type": kind, "message": message_for(_with_dotted_path(error), _LEADS, _LEADS)}
    body: dict[str, Any] = {"type": "error", "error": fields}
    if isinstance(error, ProviderError) and error.request_id:
        body["request_id"] = error.request_id
    return status, ENCODER.encode(in_envelope(body, error, NAME))

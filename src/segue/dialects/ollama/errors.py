"""Refusals of Ollama, both ways: one sentence, from the server or from the engine behind it."""

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

_PHRASES: tuple[tuple[str, type[ProviderError]], ...] = (
    ("longer than the context length", ContextLengthError),  # OLL-16
    ("exceeds the available context size", ContextLengthError),
    ("exceeded max context length", ContextLengthError),
    ("exceeds the context length", ContextLengthError),
    ("server busy", OverloadError),  # OLL-19
    ("request canceled", OverloadError),
    ("unexpectedly stopped", OverloadError),
    ("requires more system memory", OverloadError),
    ("weekly usage limit", QuotaError),
    ("hourly usage limit", QuotaError),
    ("usage limit", QuotaError),
    ("subscription", QuotaError),
    ("too many concurrent requests", RateLimitError),
    ("unauthorized", CredentialsError),
    ("content policy", ContentPolicyError),
    ("does not support", InvalidRequestError),  # OLL-07, OLL-08, OLL-10
    ("try pulling it first", InvalidRequestError),
    ("not found", InvalidRequestError),  # OLL-11
    # What a chat template says when it does not like the order of messages comes with status 500 (OLL-03).
    ("no user query found", InvalidRequestError),
    ("cannot contain images", InvalidRequestError),
    ("must be of type", InvalidRequestError),  # OLL-14
    ("invalid format", InvalidRequestError),  # OLL-18
    ("cannot unmarshal", InvalidRequestError),
    ("conversation roles must alternate", InvalidRequestError),
)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    error = told.get("error") if isinstance(told, dict) else None
    return refusal(error, status=status, request=request_id(headers), wait=retry_after(headers), body=body)


def refusal(
    error: Any,
    *,
    status: int | None = None,
    request: str = "",
    wait: float | None = None,
    body: bytes = b"",
) -> ProviderError:
    """What stands under `error`, in an answer of its own or in a line of a stream (OLL-23)."""
    if isinstance(error, dict):
        error = error.get("message")
    message = redact_text(error) if isinstance(error, str) else ""
    found = _by_phrase(message) or (class_of_status(status) if status is not None else OverloadError)
    return found(
        message or excerpt(body, status or 0),
        code=TOOLS_UNSUPPORTED if "does not support tools" in message.lower() else "",  # OLL-07
        status=status,
        request_id=request,
        retry_after=wait,
        body=clean_body(body),
    )


def _by_phrase(message: str) -> type[ProviderError] | None:
    lowered = message.lower()
    return next((found for phrase, found in _PHRASES if phrase in lowered), None)


_STATUSES: tuple[tuple[type[SegueError], int], ...] = (
    (CredentialsError, 401),
    (QuotaError, 402),
    (RateLimitError, 429),
    (OverloadError, 503),
    (ContextLengthError, 400),
    (ContentPolicyError, 400),
    (InvalidRequestError, 400),
    (TranscriptError, 400),
    (UsageError, 400),
    (TransportError, 504),
    (ProtocolError, 502),
)
_PHRASE_OF: Mapping[type[SegueError], str] = {
    ContextLengthError: "the prompt is longer than the context length currently available to the model",
    ContentPolicyError: "refused by the content policy",
    QuotaError: "usage limit reached",
    OverloadError: "server busy, please try again",
    RateLimitError: "too many concurrent requests",
    CredentialsError: "unauthorized",
}
"""Words that clients look for: this wire has nothing but words."""


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status = next((status for known, status in _STATUSES if isinstance(error, known)), 500)
    if isinstance(error, InvalidRequestError) and error.status == 404:
        status = 404
    message = redact_text(str(error)) or "the request failed"
    phrase = _PHRASE_OF.get(type(error), "")
    if phrase and _by_phrase(message) is not type(error):
        message = f"{phrase}: {message}"
    return status, msgspec.json.encode({"error": message})

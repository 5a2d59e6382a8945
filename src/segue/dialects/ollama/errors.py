"""Errors of Ollama, both ways: one sentence, from the server or from the engine behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.errors import (
    IN_REPLY,
    TOOLS_UNSUPPORTED,
    FailedResponse,
    Phrases,
    class_of_error,
    in_envelope,
    message_for,
    read_response,
    status_for,
    with_envelope,
)
from segue.dialects.ollama.rules import NAME
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

_PHRASES: Phrases = (
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
    ("file does not exist", InvalidRequestError),  # nobody made the model that is pulled
    # Errors of a chat template about the order of messages come with status 500 (OLL-03).
    ("no user query found", InvalidRequestError),
    ("cannot contain images", InvalidRequestError),
    ("must be of type", InvalidRequestError),  # OLL-14
    ("invalid format", InvalidRequestError),  # OLL-18
    ("cannot unmarshal", InvalidRequestError),
    ("conversation roles must alternate", InvalidRequestError),
)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    return with_envelope(
        error_from(value.get("error") if isinstance(value, dict) else None, response), NAME, value
    )


def error_from(error: Any, response: FailedResponse = IN_REPLY) -> ProviderError:
    """The error in the `error` field, of a response or of a line of a stream (OLL-23)."""
    if isinstance(error, dict):
        error = error.get("message")
    message = response.words(error)
    found = class_of_error(message, _PHRASES, response.status)
    code = TOOLS_UNSUPPORTED if "does not support tools" in message.lower() else ""  # OLL-07
    return response.error(found, message, code=code)


# The other way

_LEADS: Phrases = (
    ("the prompt is longer than the context length currently available to the model", ContextLengthError),
    ("refused by the content policy", ContentPolicyError),
    ("usage limit reached", QuotaError),
    ("server busy, please try again", OverloadError),
    ("too many concurrent requests", RateLimitError),
    ("unauthorized", CredentialsError),
)


def encode_error(error: SegueError) -> tuple[int, bytes]:
    envelope = in_envelope({"error": message_for(error, _LEADS, _PHRASES)}, error, NAME)
    return status_for(error), msgspec.json.encode(envelope)

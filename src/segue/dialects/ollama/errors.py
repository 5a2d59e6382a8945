"""Errors of Ollama, both ways: one sentence, from the server or from the engine behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.errors import IN_REPLY, FailedResponse, read_response, wire_errors
from segue.dialects.ollama.rules import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import ProviderError, SegueError


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    return error_from(value.get("error") if isinstance(value, dict) else None, response, value or {})


def error_from(error: Any, response: FailedResponse = IN_REPLY, envelope: Any = None) -> ProviderError:
    """The error in the `error` field, of a response or of a line of a stream (OLL-23)."""
    message = response.words(error.get("message") if isinstance(error, dict) else error)
    errors = wire_errors(NAME)
    found = errors.kind_of(message, (), response.status)
    envelope = {"error": error} if envelope is None else envelope
    return errors.error(response, found, message, envelope=envelope)


# The other way


def encode_error(error: SegueError) -> tuple[int, bytes]:
    errors = wire_errors(NAME)
    envelope = errors.in_envelope({"error": errors.message_for(error)}, error)
    return errors.status_for(error), msgspec.json.encode(envelope)

"""Errors of the Messages wire, both ways (ANT-01)."""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Any

from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.anthropic_messages.wire import ENCODER
from segue.dialects.errors import IN_REPLY, FailedResponse, read_response, wire_errors
from segue.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import SegueError

NAME = ANTHROPIC.target.dialect
_INDEX = re.compile(r"\[(\d+)\]")


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    fields = value if isinstance(value, dict) else {}
    error = fields.get("error")
    return error_from(error if isinstance(error, dict) else {}, response, fields)


def error_from(
    error: Mapping[str, Any], response: FailedResponse = IN_REPLY, envelope: Mapping[str, Any] | None = None
) -> ProviderError:
    """The error in an `error` object, of a response or of a stream (ANT-75)."""
    kind, details = error.get("type"), error.get("details")
    detail = details.get("error_code") if isinstance(details, dict) else None
    message = response.words(error.get("message"))
    envelope, errors = {"error": error} if envelope is None else envelope, wire_errors(NAME)
    return errors.error(
        response,
        errors.kind_of(message, (detail, kind), response.status),
        message,
        code=detail if isinstance(detail, str) else kind,
        path="stream" if message.startswith("stream: ") else "",  # ANT-03: a message begins with its place
        request_id=envelope.get("request_id"),
        envelope=envelope,
    )


# The other way


def encode_error(error: SegueError) -> tuple[int, bytes]:
    errors = wire_errors(NAME)
    fields = {"type": errors.type_for(error)[0], "message": errors.message_for(_with_dotted_path(error))}
    body: dict[str, Any] = {"type": "error", "error": fields}
    if isinstance(error, ProviderError) and error.request_id:
        body["request_id"] = error.request_id
    return errors.status_for(error), ENCODER.encode(errors.in_envelope(body, error))


def _with_dotted_path(error: SegueError) -> SegueError:
    """ANT-03: a message begins with its place, and this wire writes messages.0.content.1."""
    if "[" not in error.path:
        return error
    shown = copy(error)
    shown.path = _INDEX.sub(r".\1", error.path)
    return shown

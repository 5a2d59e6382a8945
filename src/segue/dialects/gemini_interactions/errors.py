"""Errors of the Interactions wire, both ways: a code in words, and a message (INT-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.errors import IN_REPLY, FailedResponse, read_response, wire_errors
from segue.dialects.gemini_interactions.rules import NAME
from segue.dialects.gemini_interactions.wire import ENCODER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import ProviderError, SegueError


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error") if isinstance(value, dict) else None
    return error_from(error if isinstance(error, dict) else {"message": error}, response, value or {})


def error_from(
    error: Mapping[str, Any], response: FailedResponse = IN_REPLY, envelope: Any = None
) -> ProviderError:
    """The error in an error object, of a response, of a failed interaction or of a stream."""
    errors = wire_errors(NAME)
    given, status = error.get("code"), error.get("status")
    if isinstance(
        given, int
    ):  # as generateContent writes it: what stands before the wire's own server does, too
        response = response.with_status(given)
    names = tuple([name.lower() for name in (given, status) if isinstance(name, str)])
    message = response.words(error.get("message"))
    return errors.error(
        response,
        errors.kind_of(message, names, response.status),
        message,
        code=names[0] if names else "",
        envelope={"error": error} if envelope is None else envelope,
    )


# The other way


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status, fields = error_object(error)
    return status, ENCODER.encode(wire_errors(NAME).in_envelope({"error": fields}, error))


def error_object(error: SegueError) -> tuple[int, dict[str, Any]]:
    """The status and the error object of an error of ours."""
    errors = wire_errors(NAME)
    status = errors.status_for(error)
    code = errors.type_for(error)[0]
    came = errors.own_members(error).get("error")
    if isinstance(came, dict) and isinstance(came.get("code"), str):
        code = came["code"]
    return status, {"code": code, "message": errors.message_for(error)}

"""Errors of Mistral, both ways: its own envelope, and the one of its schema checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.errors import IN_REPLY, FailedResponse, fault_place, read_response, wire_errors
from segue.dialects.mistral.rules import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import ProviderError, SegueError


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
    response, errors = response.with_status(error.get("raw_status_code")), wire_errors(NAME)
    return errors.error(
        response,
        errors.kind_of(message, (kind,), response.status),
        message,
        code=kind if isinstance(kind, str) else str(code) if isinstance(code, int) else code,
        path=path or error.get("param"),
        request_id=error.get("request_id"),
        envelope=error,
    )


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


def encode_error(error: SegueError) -> tuple[int, bytes]:
    errors = wire_errors(NAME)
    kind, code = errors.type_for(error)
    came = errors.own_members(error)
    if isinstance(came.get("type"), str):
        kind, code = came["type"], came.get("code")
    message = errors.message_for(error)
    fields = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return errors.status_for(error), msgspec.json.encode(errors.in_envelope(fields, error))

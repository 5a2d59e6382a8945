"""Errors of the Responses wire, both ways: the error object of all OpenAI endpoints (OAI-03, RESP-63)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.errors import IN_REPLY, FailedResponse, first_fault_place, read_response, wire_errors
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.openai_responses.wire import ENCODER
from segue.errors import InvalidRequestError
from segue.text.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import ProviderError, SegueError


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    return error_from(_error_in(value), response, value or {})


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


def error_from(
    error: Mapping[str, Any], response: FailedResponse = IN_REPLY, envelope: Any = None
) -> ProviderError:
    """The error in an error object, of a response, of a failed reply or of a stream."""
    code, kind, param = (error.get(name) for name in ("code", "type", "param"))
    message = response.words(error.get("message"))
    status = 400 if response.status is None and kind == "invalid_request_error" else response.status
    errors = wire_errors(NAME)
    found = errors.kind_of(message, (code, kind), status)
    if code == "string_above_max_length" and _is_about_an_id(param):
        found = InvalidRequestError
    return errors.error(
        response,
        found,
        message,
        code=code if isinstance(code, str) else kind,
        path=param,
        envelope={"error": error} if envelope is None else envelope,
    )


def _is_about_an_id(param: Any) -> bool:
    """Ids and names that are too long are mistakes, not too much conversation (RESP-20, RESP-22)."""
    return isinstance(param, str) and param.rpartition(".")[2] in ("id", "call_id", "name")


# The other way


def encode_error(error: SegueError) -> tuple[int, bytes]:
    status, fields = error_object(error)
    return status, ENCODER.encode(wire_errors(NAME).in_envelope({"error": fields}, error))


def error_object(error: SegueError) -> tuple[int, dict[str, Any]]:
    """The status and the error object of an error of ours."""
    errors = wire_errors(NAME)
    status = errors.status_for(error)
    kind, code = errors.type_for(error)
    if code is None and status == 404 and error.path in ("", "model"):
        code = "model_not_found"
    if code is None and errors.is_named(error.code):
        code = error.code
    came = errors.own_members(error).get("error")
    if isinstance(came, dict):
        code = came.get("code", code)
    message = redact_text(f"{error.message} {error.hint}".strip()) or "The request failed."
    return status, {"message": message, "type": kind, "param": error.path or None, "code": code}

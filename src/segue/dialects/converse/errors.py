"""Errors of Converse, both ways (BDR-19). Their type is in a header, and in a frame of a stream in one of its headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segue.dialects.converse.rules import NAME
from segue.dialects.converse.wire import ENCODER
from segue.dialects.errors import IN_REPLY, FailedResponse, read_response, wire_errors
from segue.dialects.server_side.wire_server import error_headers
from segue.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import ProviderError, SegueError

TYPE_HEADER: Final = "x-amzn-errortype"
_BY_MODEL = frozenset({"ModelErrorException", "ModelStreamErrorException"})
"""Errors of the model behind the service, which bear the status that it gave."""
_NO_STATUS: Final = 424
"""What such an error is judged by where the model gave none of a failure."""
_PROFILE_NEEDED: Final = "with on-demand throughput isn"
_PROFILE_HINT: Final = (
    "This model is reached by an inference profile: put a region's prefix before its id, such as us., eu., apac. or "
    "global., or use the ARN of a profile."
)
"""AWS-05."""
_MODEL_ACCESS: Final = "have access to the model with the specified model id"
_ACCESS_HINT: Final = "Ask for access to this model in the Bedrock console, in the region that is asked."


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    fields = value if isinstance(value, dict) else {}
    return error_from(_type(headers.get(TYPE_HEADER) or fields.get("__type")), fields, response)


def _type(given: Any) -> str:
    """The bare name: the header may have an address behind it, the field a namespace before it."""
    name = given if isinstance(given, str) else ""
    return name.partition(":")[0].rpartition("#")[2]


def error_from(kind: str, fields: Mapping[str, Any], response: FailedResponse = IN_REPLY) -> ProviderError:
    """The error in the body of a response, or in a frame of a stream."""
    message = response.words(fields.get("message", fields.get("Message")))
    original = fields.get("originalStatusCode")
    names, status = [kind], response.status
    if kind in _BY_MODEL and isinstance(original, int) and not isinstance(original, bool):
        names, status = [], original if original >= 400 else _NO_STATUS
    errors = wire_errors(NAME)
    found = errors.kind_of(message, names, status)
    envelope = {**fields, "__type": kind} if kind else fields
    read = errors.error(response, found, message, code=kind, envelope=envelope)
    if _PROFILE_NEEDED in message:
        read.hint = _PROFILE_HINT
    elif _MODEL_ACCESS in message.lower():
        read.hint = _ACCESS_HINT
    return read


# The other way


def type_for(error: SegueError) -> str:
    errors = wire_errors(NAME)
    if isinstance(error, CredentialsError) and error.wire == NAME and errors.is_named(error.code):
        return error.code
    return errors.type_for(error)[0]


def error_fields(error: SegueError) -> dict[str, Any]:
    errors = wire_errors(NAME)
    return errors.in_envelope({"__type": type_for(error), "message": errors.message_for(error)}, error)


def encode_error(error: SegueError) -> tuple[int, bytes]:
    return wire_errors(NAME).status_for(error), ENCODER.encode(error_fields(error))


def headers_for(error: SegueError) -> dict[str, str]:
    return {**error_headers(error), TYPE_HEADER: type_for(error)}

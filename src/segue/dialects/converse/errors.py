"""Errors of Converse, both ways (BDR-19). Their type is in a header, and in a frame of a stream in one of its headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segue.dialects.converse.rules import NAME
from segue.dialects.converse.wire import ENCODER
from segue.dialects.errors import (
    IN_REPLY,
    STATUSES,
    FailedResponse,
    Phrases,
    class_of_error,
    class_of_status,
    in_envelope,
    message_for,
    read_response,
    status_for,
    with_envelope,
)
from segue.dialects.server import error_headers
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

TYPE_HEADER: Final = "x-amzn-errortype"
_BY_TYPE: Mapping[str, type[ProviderError]] = {
    "ValidationException": InvalidRequestError,
    "ServiceQuotaExceededException": QuotaError,
    "AccessDeniedException": CredentialsError,
    "UnrecognizedClientException": CredentialsError,
    "ExpiredTokenException": CredentialsError,
    "InvalidSignatureException": CredentialsError,
    "IncompleteSignatureException": CredentialsError,
    "MissingAuthenticationTokenException": CredentialsError,
    "InvalidClientTokenId": CredentialsError,
    "ResourceNotFoundException": InvalidRequestError,
    "ModelTimeoutException": OverloadError,
    "ThrottlingException": RateLimitError,
    "TooManyRequestsException": RateLimitError,
    "ModelNotReadyException": OverloadError,
    "InternalServerException": OverloadError,
    "ServiceUnavailableException": OverloadError,
    "ModelErrorException": OverloadError,
    "ModelStreamErrorException": OverloadError,
}
_BY_MODEL = frozenset({"ModelErrorException", "ModelStreamErrorException"})
"""Errors of the model behind the service, which bear the status that it gave."""
_PHRASES: Phrases = (
    ("input is too long", ContextLengthError),
    ("prompt is too long", ContextLengthError),
    ("exceed context limit", ContextLengthError),
    ("exceeds the maximum number of tokens", ContextLengthError),
    ("too many input tokens", ContextLengthError),
    ("content filtering policy", ContentPolicyError),
)
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
    given = fields.get("message", fields.get("Message"))
    message = response.words(given)
    original = fields.get("originalStatusCode")
    if kind in _BY_MODEL and isinstance(original, int) and not isinstance(original, bool):
        found = class_of_error(message, _PHRASES, original) if original >= 400 else class_of_status(424)
    else:
        found = class_of_error(message, _PHRASES, response.status, (_BY_TYPE, kind))
    read = response.error(found, message, code=kind)
    if _PROFILE_NEEDED in message:
        read.hint = _PROFILE_HINT
    elif _MODEL_ACCESS in message.lower():
        read.hint = _ACCESS_HINT
    return with_envelope(read, NAME, {**fields, "__type": kind} if kind else fields)


# The other way

_STATUSES = {**STATUSES, CredentialsError: 403, QuotaError: 400}
_TYPES: Mapping[int, str] = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_LEADS: Phrases = (
    ("Input is too long for requested model", ContextLengthError),
    ("content filtering policy", ContentPolicyError),
)


def type_for(error: SegueError) -> str:
    if isinstance(error, QuotaError):
        return "ServiceQuotaExceededException"
    if isinstance(error, CredentialsError) and error.wire == NAME and error.code in _BY_TYPE:
        return error.code
    status = status_for(error, _STATUSES)
    return _TYPES.get(status, "ValidationException" if 400 <= status < 500 else "InternalServerException")


def error_fields(error: SegueError) -> dict[str, Any]:
    message = message_for(error, _LEADS, _PHRASES)
    fields = {"__type": type_for(error), "message": message}
    return in_envelope(fields, error, NAME)


def encode_error(error: SegueError) -> tuple[int, bytes]:
    return status_for(error, _STATUSES), ENCODER.encode(error_fields(error))


def headers_for(error: SegueError) -> dict[str, str]:
    return {**error_headers(error), TYPE_HEADER: type_for(error)}

"""Bedrock's error answers: the message in the body, the type in a header (BDR-19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.converse.frames import exception
from segue.emulators.http import ErrorWords, retry_after
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.faults import Fault

VALIDATION = "ValidationException"
TYPES = {
    400: VALIDATION,
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
MESSAGES = {
    403: "You don't have access to the model with the specified model ID.",
    404: "Could not resolve the foundation model from the provided model identifier.",
    408: "Model has timed out in processing the request. Try your request again.",
    424: "The system encountered an unexpected error during processing. Try your request again.",
    429: "Too many requests, please wait before trying again.",
    500: "The system encountered an unexpected error during processing. Try your request again.",
    503: "Bedrock is unable to process your request.",
}
_IN_STREAM = {
    "ThrottlingException": "throttlingException",
    VALIDATION: "validationException",
    "ServiceUnavailableException": "serviceUnavailableException",
    "ModelErrorException": "modelStreamErrorException",
}


@rule("BDR-19")
def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:
    body: dict[str, Any] = {"message": refusal.message}
    if refusal.status == 424:
        body |= {"originalStatusCode": 500, "resourceName": context.model}
    return body


@rule("BDR-19")
def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    found = {"x-amzn-requestid": f"00000000-0000-4000-8000-{(context.reply_id or 'emulated')[:12]:0<12}"}
    if refusal is not None:
        found["x-amzn-errortype"] = _type(refusal) + ":http://internal.amazon.com/coral/com.amazon.bedrock/"
    return found | retry_after(refusal)


def _type(refusal: Refusal) -> str:
    if refusal.type.endswith("Exception"):
        return refusal.type
    return TYPES.get(refusal.status, VALIDATION if refusal.status < 500 else "InternalServerException")


def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001
    """Bedrock's words for an error status that has nothing to do with the request's shape."""
    usual = MESSAGES.get(fault.status, MESSAGES[500])
    return Refusal("BDR-19", usual, type=TYPES.get(fault.status, ""))


@rule("BDR-09")
def stream_error(refusal: Refusal, context: Context) -> bytes:
    """An error after HTTP 200: the stream ends behind it."""
    name = _IN_STREAM.get(_type(refusal), "internalServerException")
    return exception(name, msgspec.json.encode(envelope(refusal, context)))


@rule("BDR-19")
def not_json(_: bytes, problem: str) -> Refusal:
    return Refusal("BDR-19", f"Unable to parse the request body: {problem}", type="SerializationException")


ERRORS = ErrorWords(
    provider="bedrock",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    stream_error=stream_error,
)

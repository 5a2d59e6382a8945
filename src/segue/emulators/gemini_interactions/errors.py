"""The error answers of Interactions: a code in words, and a message (INT-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.gemini import errors as google
from segue.emulators.http import ErrorWords, retry_after, sse
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.faults import Fault

CODES = {
    400: "invalid_request",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    405: "unimplemented",
    409: "aborted",
    429: "resource_exhausted",
    500: "internal",
    503: "unavailable",
    504: "deadline_exceeded",
}


@rule("INT-10")
def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:
    del context
    code = refusal.code or CODES.get(refusal.status, "unknown")
    return {"error": {"code": code.lower(), "message": refusal.message}}


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    del context
    return {"server": "scaffolding on HTTPServer2", **retry_after(refusal)}


def fault(fault: Fault, context: Context) -> Refusal:
    """Google's words for an error status that has nothing to do with the request's shape."""
    found = google.fault(fault, context)
    return Refusal("INT-10", found.message, type=found.type)


@rule("INT-09")
def stream_error(refusal: Refusal, context: Context) -> bytes:
    """An error after the stream has begun is one more event, the last."""
    return sse({"event_type": "error", **envelope(refusal, context)}, "error")


def wrong_key(key: str) -> Refusal:
    if not key:
        return Refusal("INT-10", google.NO_KEY, status=403)
    return Refusal("INT-10", google.WRONG_KEY)


def not_json(_: bytes, problem: str) -> Refusal:
    return Refusal("INT-10", f"Invalid JSON payload received. {problem}")


ERRORS = ErrorWords(
    provider="gemini",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
    stream_error=stream_error,
)

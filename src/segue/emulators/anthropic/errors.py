"""Anthropic's error answers: the envelope, the headers beside it, and its words for trouble on its own side."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from segue.emulators.http import ErrorWords, retry_after, sse
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.faults import Fault

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGES = {
    402: "Your credit balance is too low to access the Anthropic API.",
    403: "Your API key does not have permission to use the specified resource.",
    413: "Request exceeds the maximum size",
    500: "Internal server error",
    504: "Request timed out",
    529: "Overloaded",
}
RETRIED = (408, 409, 429, 500, 502, 503, 504, 529)
LIMIT = 450_000


@rule("ANT-01")
def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:
    error: dict[str, Any] = {"type": refusal.type, "message": refusal.message}
    if refusal.code:
        error["details"] = {"error_code": refusal.code}
        if refusal.unsupported:
            error["details"]["unsupported"] = list(refusal.unsupported)
    return {"type": "error", "error": error, "request_id": _request_id(context)}


@rule("ANT-90")
def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    found = {"request-id": _request_id(context), "anthropic-organization-id": "emulated"}
    reset = datetime.fromtimestamp(context.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for kind in ("requests", "tokens", "input-tokens", "output-tokens"):
        found[f"anthropic-ratelimit-{kind}-limit"] = str(LIMIT)
        # Rounded to thousands, as the API does.
        found[f"anthropic-ratelimit-{kind}-remaining"] = str(LIMIT - 1000)
        found[f"anthropic-ratelimit-{kind}-reset"] = reset
    if refusal is None:
        return found
    found["x-should-retry"] = "true" if refusal.status in RETRIED else "false"
    return found | retry_after(refusal)


@rule("ANT-90")
def fault(fault: Fault, context: Context) -> Refusal:
    """Anthropic's words for an error status that has nothing to do with the request's shape."""
    rate_limit = (
        f"This request would exceed your organization's rate limit of {LIMIT:,} input tokens per minute"
        f" (org: emulated, model: {context.model}). For details, refer to: https://docs.claude.com/en/api/rate-limits."
    )
    usual = rate_limit if fault.status == 429 else MESSAGES.get(fault.status, "Internal server error")
    kind = TYPES.get(fault.status, "api_error" if fault.status >= 500 else "invalid_request_error")
    return Refusal("ANT-90", usual, type=kind)


@rule("ANT-75")
def stream_error(refusal: Refusal, context: Context) -> bytes:
    """An error after HTTP 200: the stream ends behind it, without `message_stop`."""
    return sse(envelope(refusal, context), "error")


@rule("ANT-01")
def wrong_key(key: str) -> Refusal:
    text = "invalid x-api-key" if key else "x-api-key header is required"
    return Refusal("ANT-01", text, status=401, type="authentication_error")


@rule("ANT-04")
def not_json(_: bytes, problem: str) -> Refusal:
    return Refusal("ANT-04", f"The request body is not valid JSON: {problem}")


def _request_id(context: Context) -> str:
    return f"req_01{context.reply_id or 'emulated'}"


ERRORS = ErrorWords(
    provider="anthropic",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
    stream_error=stream_error,
)

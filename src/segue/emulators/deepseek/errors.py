"""DeepSeek's error answers: OpenAI's envelope with one code for everything, and plain text from its older parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.http import ErrorWords, retry_after
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.faults import Fault

CODE = "invalid_request_error"


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    return {
        "error": {
            "message": refusal.message,
            "type": refusal.type,
            "param": None,
            "code": refusal.code or CODE,
        }
    }


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    return {"x-ds-trace-id": context.reply_id, **retry_after(refusal)}


@rule("DSK-00")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    match fault.status:
        case 429:
            return Refusal("DSK-00", "Rate limit reached", type="rate_limit_error")
        case 401:
            return Refusal("DSK-00", _invalid("sk-emulated-key"), type="authentication_error")
        case 402:
            return Refusal("DSK-00", "Insufficient Balance", type="unknown_error")
        case 503:
            text = "Service is too busy. Please try again later."
            return Refusal("DSK-00", text, type="service_unavailable_error")
        case status if status >= 500:
            return Refusal("DSK-00", "Internal Server Error", type="internal_server_error")
        case _:
            return Refusal("DSK-00", "Invalid request")


@rule("DSK-00")
def wrong_key(key: str) -> Refusal:
    text = _invalid(key) if key else "Authentication Fails (governor)"
    return Refusal("DSK-00", text, status=401, type="authentication_error")


def _invalid(key: str) -> str:
    return f"Authentication Fails, Your api key: ****{key[-4:]} is invalid"


def not_json(*_: object) -> Refusal:
    text = "Failed to parse the request body as JSON: expected value at line 1 column 1"
    return Refusal("DSK-00", text)


ERRORS = ErrorWords(
    provider="deepseek",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
)

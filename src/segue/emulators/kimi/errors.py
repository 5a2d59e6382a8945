"""Moonshot's error body, its words for trouble that is not the request's, and the trace id of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.http import ErrorWords, retry_after
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.faults import Fault


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    return {"error": {"message": refusal.message, "type": refusal.type}}


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    return {"x-trace-id": context.reply_id, **retry_after(refusal)}


@rule("KIM-21")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    match fault.status:
        case 429:
            wait = 1 if fault.retry_after is None else fault.retry_after
            text = f"Your account request reached max request: 200, please try again after {wait:g} seconds"
            return Refusal("KIM-21", text, type="rate_limit_reached_error")
        case 401:
            return Refusal("KIM-21", "Invalid Authentication", type="invalid_authentication_error")
        case 503 | 529:
            text = "The engine is currently overloaded, please try again later"
            return Refusal("KIM-21", text, type="engine_overloaded_error")
        case status if status >= 500:
            return Refusal("KIM-21", "Internal server error", type="server_error")
        case _:
            return Refusal("KIM-21", "Invalid request")


@rule("KIM-00")
def wrong_key(_: str) -> Refusal:
    return Refusal("KIM-00", "Invalid Authentication", status=401, type="invalid_authentication_error")


def not_json(*_: object) -> Refusal:
    return Refusal("KIM-00", "Invalid request: request body is not valid JSON")


ERRORS = ErrorWords(
    provider="kimi",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
)

"""Moonshot's error body, its words for trouble that is not the request's, and the trace id of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.emulator import key_of
from segue.emulators.http import Request, Response, json_response
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
    from segue.emulators.faults import Fault


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    return {"error": {"message": refusal.message, "type": refusal.type}}


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    common = {"x-trace-id": context.reply_id}
    if refusal is not None and refusal.retry_after is not None:
        common["retry-after"] = f"{refusal.retry_after:g}"
    return common


def refuse(refusal: Refusal, context: Context) -> Response:
    return json_response(
        envelope(refusal, context), status=refusal.status, headers=headers(refusal, context), refusal=refusal
    )


@rule("KIM-21")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    match fault.status:
        case 429:
            wait = 1 if fault.retry_after is None else fault.retry_after
            message = (
                f"Your account request reached max request: 200, please try again after {wait:g} seconds"
            )
            kind = "rate_limit_reached_error"
        case 401:
            message, kind = "Invalid Authentication", "invalid_authentication_error"
        case 503 | 529:
            message = "The engine is currently overloaded, please try again later"
            kind = "engine_overloaded_error"
        case status if status >= 500:
            message, kind = "Internal server error", "server_error"
        case _:
            message, kind = "Invalid request", "invalid_request_error"
    return Refusal(
        "KIM-21", fault.message or message, status=fault.status, type=kind, retry_after=fault.retry_after
    )


def stream_error(refusal: Refusal, context: Context) -> bytes:
    return b"data: " + msgspec.json.encode(envelope(refusal, context)) + b"\n\n"


@rule("KIM-00")
def credentials(request: Request, emulator: Emulator) -> Refusal | None:
    key = key_of(request)
    if not key or (emulator.keys is not None and key not in emulator.keys):
        return Refusal("KIM-00", "Invalid Authentication", status=401, type="invalid_authentication_error")
    return None


def not_json(body: bytes) -> Refusal:  # noqa: ARG001 — one signature for all providers
    return Refusal("KIM-00", "Invalid request: request body is not valid JSON")

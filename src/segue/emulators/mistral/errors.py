"""Mistral's error bodies: one shape for refused conversations, another for requests that do not fit the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.emulator import key_of
from segue.emulators.http import Request, Response, json_response
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
    from segue.emulators.faults import Fault

Location = tuple[str | int, ...]

ORDER = ("invalid_request_message_order", "3230")
CALL = ("invalid_function_call", "3280")
PROMPT = ("invalid_request_prompt", "3210")
MODEL = ("invalid_model", "1500")


class SchemaRefusal(Refusal, frozen=True, kw_only=True):
    """A value that the request schema does not allow; `code` is the validator's name for the mistake."""

    status: int = 422
    location: Location = ()
    input: Any = None


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    if refusal.status == 401:
        return {"detail": refusal.message}
    if isinstance(refusal, SchemaRefusal):
        # Bare since 2026, as the provider's own client expects it; older answers wrapped it into the other shape.
        detail = {
            "type": refusal.code,
            "loc": ["body", *refusal.location],
            "msg": refusal.message,
            "input": refusal.input,
        }
        return {"detail": [detail]}
    return {
        "object": "error",
        "message": refusal.message,
        "type": refusal.type,
        "param": refusal.param,
        "code": refusal.code,
    }


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    common = {"mistral-correlation-id": context.reply_id, "x-kong-request-id": context.reply_id}
    if refusal is not None and refusal.retry_after is not None:
        common["retry-after"] = f"{refusal.retry_after:g}"
    return common


def refuse(refusal: Refusal, context: Context) -> Response:
    return json_response(
        envelope(refusal, context), status=refusal.status, headers=headers(refusal, context), refusal=refusal
    )


@rule("MIS-19", "M")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    """Recorded words of trouble that is not the request's; 529 is Mistral's own "overloaded"."""
    match fault.status:
        case 429:
            message, kind, code = "Rate limit exceeded", "rate_limited", "1300"
        case 401:
            message, kind, code = "Unauthorized", "invalid_request_error", ""
        case status if status >= 500:
            message, kind, code = "Service unavailable.", "internal_server_error", "1000"
        case _:
            message, kind, code = "Bad request", "invalid_request_error", ""
    return Refusal(
        "MIS-19",
        fault.message or message,
        status=fault.status,
        type=kind,
        code=code or None,
        retry_after=fault.retry_after,
    )


def stream_error(refusal: Refusal, context: Context) -> bytes:
    return b"data: " + msgspec.json.encode(envelope(refusal, context)) + b"\n\n"


@rule("MIS-00")
def credentials(request: Request, emulator: Emulator) -> Refusal | None:
    key = key_of(request)
    if not key:
        return Refusal("MIS-00", "Unauthorized", status=401)
    if emulator.keys is not None and key not in emulator.keys:
        return Refusal("MIS-00", "Invalid API Key", status=401)
    return None


def not_json(body: bytes) -> Refusal:
    return SchemaRefusal(
        rule="MIS-V24",
        code="json_invalid",
        message="JSON decode error",
        location=(0,),
        input=body[:80].decode("utf-8", "replace"),
    )

"""Mistral's error bodies: one shape for refused conversations, another for requests that do not fit the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.http import ErrorWords, retry_after
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
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
    name = context.reply_id
    return {"mistral-correlation-id": name, "x-kong-request-id": name, **retry_after(refusal)}


@rule("MIS-19", "M")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    """Recorded words of trouble that is not the request's; 529 is Mistral's own "overloaded"."""
    match fault.status:
        case 429:
            return Refusal("MIS-19", "Rate limit exceeded", type="rate_limited", code="1300")
        case 401:
            return Refusal("MIS-19", "Unauthorized")
        case status if status >= 500:
            return Refusal("MIS-19", "Service unavailable.", type="internal_server_error", code="1000")
        case _:
            return Refusal("MIS-19", "Bad request")


@rule("MIS-00")
def wrong_key(key: str) -> Refusal:
    return Refusal("MIS-00", "Invalid API Key" if key else "Unauthorized", status=401)


def not_json(body: bytes, _: str) -> Refusal:
    return SchemaRefusal(
        rule="MIS-V24",
        code="json_invalid",
        message="JSON decode error",
        location=(0,),
        input=body[:80].decode("utf-8", "replace"),
    )


ERRORS = ErrorWords(
    provider="mistral",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
)

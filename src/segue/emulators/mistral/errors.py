"""Mistral's error bodies: one shape for refused conversations, another for requests that do not fit the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.refusal import Refusal

if TYPE_CHECKING:
    from segue.emulators.context import Context

Location = tuple[str | int, ...]

ORDER = ("invalid_request_message_order", "3230")
CALL = ("invalid_function_call", "3280")
PROMPT = ("invalid_request_prompt", "3210")


class SchemaRefusal(Refusal, frozen=True, kw_only=True):
    """A value that the request schema does not allow; `code` is the validator's name for the mistake."""

    status: int = 422
    location: Location = ()
    input: Any = None


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    if refusal.status == 401:
        return {"detail": refusal.message}
    message: object = refusal.message
    code = refusal.code
    if isinstance(refusal, SchemaRefusal):
        detail = {
            "type": refusal.code,
            "loc": ["body", *refusal.location],
            "msg": refusal.message,
            "input": refusal.input,
        }
        message, code = {"detail": [detail]}, None
    return {"object": "error", "message": message, "type": refusal.type, "param": refusal.param, "code": code}

"""DeepSeek's error answers: OpenAI's envelope with one code for everything, and plain text from its older parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.emulator import key_of
from segue.emulators.http import Request, Response, json_response
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
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
    common = {"x-ds-trace-id": context.reply_id}
    if refusal is not None and refusal.retry_after is not None:
        common["retry-after"] = f"{refusal.retry_after:g}"
    return common


def refuse(refusal: Refusal, context: Context) -> Response:
    beside = headers(refusal, context)
    if refusal.status == 422:
        return Response(
            status=422,
            headers={"content-type": "text/plain; charset=utf-8", **beside},
            body=refusal.message.encode("utf-8", "replace"),
            refusal=refusal,
        )
    return json_response(envelope(refusal, context), status=refusal.status, headers=beside, refusal=refusal)


@rule("DSK-00")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    match fault.status:
        case 429:
            message, kind = "Rate limit reached", "rate_limit_error"
        case 401:
            message, kind = _wrong_key("sk-emulated-key"), "authentication_error"
        case 402:
            message, kind = "Insufficient Balance", "unknown_error"
        case 503:
            message, kind = "Service is too busy. Please try again later.", "service_unavailable_error"
        case status if status >= 500:
            message, kind = "Internal Server Error", "internal_server_error"
        case _:
            message, kind = "Invalid request", "invalid_request_error"
    return Refusal(
        "DSK-00", fault.message or message, status=fault.status, type=kind, retry_after=fault.retry_after
    )


def stream_error(refusal: Refusal, context: Context) -> bytes:
    return b"data: " + msgspec.json.encode(envelope(refusal, context)) + b"\n\n"


@rule("DSK-00")
def credentials(request: Request, emulator: Emulator) -> Refusal | None:
    key = key_of(request)
    if not key:
        return _unauthenticated("Authentication Fails (governor)")
    if emulator.keys is not None and key not in emulator.keys:
        return _unauthenticated(_wrong_key(key))
    return None


def _unauthenticated(message: str) -> Refusal:
    return Refusal("DSK-00", message, status=401, type="authentication_error")


def _wrong_key(key: str) -> str:
    return f"Authentication Fails, Your api key: ****{key[-4:]} is invalid"


def not_json(body: bytes) -> Refusal:  # noqa: ARG001 — one signature for all providers
    return Refusal("DSK-00", "Failed to parse the request body as JSON: expected value at line 1 column 1")

"""Ollama's error answers: one string, and its words for a server in trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.http import ErrorWords, retry_after
from segue.emulators.ollama import gojson
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.faults import Fault

_BUSY = "server busy, please try again.  maximum pending requests exceeded"
_STOPPED = (
    "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error, "
    "check ollama server logs for details"
)


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    return {"error": refusal.message}


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:  # noqa: ARG001 — one signature for all
    return retry_after(refusal)


@rule("OLL-19")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    messages = {401: "unauthorized", 429: "too many requests", 499: "request canceled", 503: _BUSY}
    default = _STOPPED if fault.status >= 500 else "bad request"
    return Refusal("OLL-19", messages.get(fault.status, default), type="api_error")


@rule("OLL-23")
def stream_error(refusal: Refusal, context: Context) -> bytes:  # noqa: ARG001 — one signature for all providers
    """After HTTP 200 an error is one last line."""
    text = f"an error was encountered while running the model: {refusal.message}"
    return msgspec.json.encode({"error": text}) + b"\n"


def not_json(body: bytes, _: str) -> Refusal:
    return Refusal("OLL-11", gojson.not_json(body))


ERRORS = ErrorWords(
    provider="ollama",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    stream_error=stream_error,
)

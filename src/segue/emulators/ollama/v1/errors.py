"""OpenAI's envelope around the native words; in a stream an error is lost."""

from __future__ import annotations

from typing import Any

from segue.emulators.http import ErrorWords, sse
from segue.emulators.ollama.errors import fault, headers, not_json
from segue.emulators.rules import Context, Refusal, rule

_TYPES = {400: "invalid_request_error", 404: "not_found_error"}


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    kind = _TYPES.get(refusal.status, "api_error")
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": None}}


@rule("OLL-37", "M")
def stream_error(refusal: Refusal, context: Context) -> bytes:  # noqa: ARG001 — one signature for all providers
    """The native error line is read as an empty answer: one empty chunk, then the end without [DONE]."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    chunk = {
        "id": "chatcmpl-0",
        "object": "chat.completion.chunk",
        "created": context.now,
        "model": context.model,
        "system_fingerprint": "fp_ollama",
        "choices": [choice],
    }
    return sse(chunk)


ERRORS = ErrorWords(
    provider="ollama",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    stream_error=stream_error,
)

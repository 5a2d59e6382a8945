"""Responses uses OpenAI's envelope; only an error inside a stream has its own two events (RESP-63)."""

from __future__ import annotations

from typing import Any

from segue.emulators.http import ErrorWords, sse
from segue.emulators.openai_chat.errors import envelope, fault, headers, not_json, wrong_key
from segue.emulators.rules import Context, Refusal, rule


def event(kind: str, number: int, **fields: Any) -> bytes:
    return sse({"type": kind, "sequence_number": number, **fields}, kind)


@rule("RESP-63", "H")
def stream_error(refusal: Refusal, context: Context) -> bytes:
    """The nested form that is really sent, then `response.failed`."""
    failed = {
        "id": f"resp_{context.reply_id}",
        "object": "response",
        "created_at": context.now,
        "status": "failed",
        "error": {"code": refusal.code or "server_error", "message": refusal.message},
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": context.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1,
        "usage": None,
    }
    error = envelope(refusal, context)["error"]
    return event("error", 1_000_000, error=error) + event("response.failed", 1_000_001, response=failed)


ERRORS = ErrorWords(
    provider="openai",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
    stream_error=stream_error,
)

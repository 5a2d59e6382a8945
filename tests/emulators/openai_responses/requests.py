"""Requests to break one rule at a time."""

from __future__ import annotations

from typing import Any

from emulators.judge import Judge
from segue.emulators.openai_responses import chain
from segue.emulators.openai_responses.checks import complaints
from segue.emulators.rules import Context

judge = Judge(complaints, "openai", "gpt-5.5")
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def body(*items: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5.5", "input": list(items), **more}


def call(call_id: str = "call_a1", **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "get_weather",
        "arguments": "{}",
        **more,
    }


def output(call_id: str = "call_a1", value: Any = "18", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value, **more}


def said(**more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": "Checking.", "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part], **more}


def reasoning(**more: Any) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Need two lookups."}],
        "encrypted_content": chain.issue("Need two lookups.", Context()),
        **more,
    }

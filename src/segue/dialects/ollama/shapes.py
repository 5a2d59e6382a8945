"""What the Ollama wire takes in a request, place by place. Fields that it does not know are ignored, and null is no value."""

from __future__ import annotations

from typing import Any

from segue.dialects.request_messages import join_texts
from segue.dialects.shapes import (
    ANY,
    ARGUMENTS,
    OPTIONAL_ID,
    SCHEMA,
    TEXT,
    UNFIT,
    WHOLE,
    WORDS,
    Fields,
    Items,
    Tagged,
    Value,
    matching,
)
from segue.transcript.value_text import json_of


def _joined(value: Any) -> Any:
    """OLL-01: the texts of a content in parts, as other wires have it."""
    if not isinstance(value, list):
        return UNFIT
    texts = [part.get("text", part) if isinstance(part, dict) else part for part in value]
    return join_texts([text if isinstance(text, str) else json_of(text) for text in texts if text])


_CALL = Fields(
    {
        "id": OPTIONAL_ID,
        "function": Fields({"name": WORDS, "index": WHOLE, "arguments": ARGUMENTS}, {"name": ""}),
    },
    {"function": UNFIT},
)
_IMAGE = matching("base64", r"[A-Za-z0-9+/\r\n]*={0,2}|data:[^,]*,.*", is_read=True)  # OLL-04
MESSAGE = Fields(
    {
        "role": WORDS,
        "content": Value("a string", lambda value: isinstance(value, str), _joined, is_read=True),
        "thinking": WORDS,
        "images": Items(_IMAGE),
        "tool_calls": Items(_CALL),
        "tool_name": WORDS,
        "tool_call_id": OPTIONAL_ID,
        "name": WORDS,
    }
)
_FUNCTION = Fields({"name": WORDS, "description": WORDS, "parameters": SCHEMA})
TOOLS = Items(Tagged("type", {}, Fields({"type": TEXT, "function": _FUNCTION}, {"function": UNFIT})))
REQUEST = Fields({"messages": Items(MESSAGE), "tools": TOOLS, "model": ANY})

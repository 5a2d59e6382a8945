"""What the Ollama wire takes in a request, place by place. ObjectShape that it does not know are ignored, and null is no value."""

from __future__ import annotations

from typing import Any

from segue.dialects.request_messages import join_texts
from segue.dialects.shapes import UNFIT, Items, ObjectShape, Tagged, ValueShape
from segue.dialects.value_shapes import (
    ANY,
    ARGUMENTS,
    OPTIONAL_ID,
    SCHEMA,
    TEXT,
    WHOLE,
    WORDS,
    matching,
)
from segue.transcript.value_text import json_of


def _joined(value: Any) -> Any:
    """OLL-01: the texts of a content in parts, as other wires have it."""
    if not isinstance(value, list):
        return UNFIT
    texts = [part.get("text", part) if isinstance(part, dict) else part for part in value]
    return join_texts([text if isinstance(text, str) else json_of(text) for text in texts if text])


_CALL = ObjectShape(
    {
        "id": OPTIONAL_ID,
        "function": ObjectShape({"name": WORDS, "index": WHOLE, "arguments": ARGUMENTS}, {"name": ""}),
    },
    {"function": UNFIT},
)
_IMAGE = matching("base64", r"[A-Za-z0-9+/\r\n]*={0,2}|data:[^,]*,.*", is_read=True)  # OLL-04
MESSAGE = ObjectShape(
    {
        "role": WORDS,
        "content": ValueShape("a string", lambda value: isinstance(value, str), _joined, is_read=True),
        "thinking": WORDS,
        "images": Items(_IMAGE),
        "tool_calls": Items(_CALL),
        "tool_name": WORDS,
        "tool_call_id": OPTIONAL_ID,
        "name": WORDS,
    }
)
_FUNCTION = ObjectShape({"name": WORDS, "description": WORDS, "parameters": SCHEMA})
TOOLS = Items(Tagged("type", {}, ObjectShape({"type": TEXT, "function": _FUNCTION}, {"function": UNFIT})))
REQUEST = ObjectShape({"messages": Items(MESSAGE), "tools": TOOLS, "model": ANY})

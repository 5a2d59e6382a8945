"""What the Interactions wire takes in a request, place by place (INT-03, INT-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.requests.shapes import UNFIT, Items, ObjectShape, Tagged, TextOr, ValueShape
from segue.dialects.requests.value_shapes import (
    ANY,
    ARGUMENTS,
    FLAG,
    ID,
    LIST,
    OBJECT,
    SCHEMA,
    TEXT,
    WORDS,
    matching,
    only,
)

if TYPE_CHECKING:
    from segue.dialects.requests.shapes import Shape


def _as_text(value: Any) -> Any:
    return {"type": "text", "text": value} if isinstance(value, str) else UNFIT


def _in_words(value: Any) -> Any:
    """A result may be anything but a bare number, a flag or null: it is written out."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


_BYTES = matching("base64", r"[A-Za-z0-9+/_-]*={0,2}")
_SIGNATURE = matching("base64", r"[A-Za-z0-9+/_-]+={0,2}")
_SHOWN = ObjectShape(
    {
        "type": TEXT,
        "data": _BYTES,
        "uri": WORDS,
        "mime_type": WORDS,
        **dict.fromkeys(("resolution", "channels", "sample_rate", "name", "processing"), ANY),
    },
    some_of=frozenset({"data", "uri"}),
    closed=True,
)
_TEXT = ObjectShape(
    {"type": only("text"), "text": WORDS, "annotations": LIST}, {"type": "text", "text": ""}, closed=True
)
_CONTENT_KINDS: dict[str, Shape] = {
    "text": _TEXT,
    **dict.fromkeys(("image", "document", "audio", "video"), _SHOWN),
}
CONTENT = Tagged(
    "type",
    _CONTENT_KINDS,
    missing="text",
    correct=_as_text,
)
_CONTENTS = Items(CONTENT)


def _said(kind: str) -> Shape:
    return ObjectShape({"type": only(kind), "content": _CONTENTS}, {"content": []}, closed=True)


_RESULT = ValueShape("a text, an object or contents", lambda value: isinstance(value, str | dict), _in_words)


class _ResultShape:
    wanted = _RESULT.wanted

    def fit(self, value: Any, path: str, fitting: Any) -> Any:
        shape: Shape = _CONTENTS if isinstance(value, list) else _RESULT
        return shape.fit(value, path, fitting)


_OWN = ObjectShape({"id": TEXT, "call_id": TEXT, "signature": _SIGNATURE})
_TOOLS_OF_GOOGLE = (
    *("code_execution", "file_search", "google_maps", "google_search", "mcp_server_tool", "processing"),
    *("retrieval", "url_context"),
)
_STEP_KINDS: dict[str, Shape] = {
    "user_input": _said("user_input"),
    "model_output": ObjectShape(
        {"type": only("model_output"), "content": _CONTENTS, "error": OBJECT}, {"content": []}, closed=True
    ),
    "thought": ObjectShape(
        {"type": only("thought"), "signature": _SIGNATURE, "summary": _CONTENTS}, closed=True
    ),
    "function_call": ObjectShape(
        {"type": only("function_call"), "id": ID, "name": WORDS, "arguments": ARGUMENTS},
        {"id": "", "name": "", "arguments": {}},
        closed=True,
    ),
    "function_result": ObjectShape(
        {
            "type": only("function_result"),
            "call_id": ID,
            "name": WORDS,
            "result": _ResultShape(),
            "is_error": FLAG,
        },
        {"call_id": "", "result": ""},
        closed=True,
    ),
    **{f"{tool}_{part}": _OWN for tool in _TOOLS_OF_GOOGLE for part in ("call", "result")},
}
STEP = Tagged("type", _STEP_KINDS)
_INPUT = Tagged("type", {**_STEP_KINDS, **_CONTENT_KINDS})
TOOLS = Items(
    Tagged(
        "type",
        {
            "function": ObjectShape(
                {"type": only("function"), "name": WORDS, "description": WORDS, "parameters": SCHEMA},
                {"type": "function", "name": ""},
                closed=True,
            )
        },
        OBJECT,
        missing="function",
    )
)
_CONFIG = ObjectShape(
    dict.fromkeys(
        (
            *("max_output_tokens", "seed", "stop_sequences", "temperature", "top_p", "thinking_level"),
            *("thinking_summaries", "tool_choice", "image_config", "speech_config", "video_config"),
            "transcription_config",
        ),
        ANY,
    ),
    closed=True,
)
_KNOWN = frozenset(
    {"model", "agent", "agent_config", "background", "cached_content", "continuation_token", "environment"}
    | {"labels", "previous_interaction_id", "response_format", "response_mime_type", "response_modalities"}
    | {"safety_settings", "service_tier", "store", "stream", "system_instruction", "webhook_config"}
)
REQUEST = ObjectShape(
    {
        **dict.fromkeys(_KNOWN, ANY),
        "generation_config": _CONFIG,
        "input": TextOr(WORDS, Items(_INPUT, wraps=True)),
        "tools": TOOLS,
    },
    closed=True,
)

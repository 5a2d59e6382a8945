"""What the Messages wire takes in a request, place by place: every object has these fields and no others (ANT-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.requests.shapes import UNFIT, Items, ObjectShape, Tagged, TextOr, ValueShape
from segue.dialects.requests.value_shapes import (
    ANY,
    ARGUMENTS,
    CONTENT,
    FLAG,
    ID,
    LIST,
    OBJECT,
    OUTPUT,
    SCHEMA,
    TEXT,
    WORDS,
    word,
)

if TYPE_CHECKING:
    from segue.dialects.requests.shapes import Shape


def _text_block(value: Any) -> Any:
    return {"type": "text", "text": value} if isinstance(value, str) else UNFIT


_MARK = ObjectShape(
    {"type": word("ephemeral"), "ttl": word("5m", "1h")}, {"type": UNFIT}, closed=True, is_form=True
)


def _block(needed: dict[str, Any] | None = None, **known: Shape) -> ObjectShape:
    return ObjectShape({"type": ANY, **known}, needed or {}, closed=True)


_SOURCE = Tagged(
    "type",
    {
        "base64": _block({"data": UNFIT, "media_type": UNFIT}, data=WORDS, media_type=WORDS),
        "url": _block({"url": UNFIT}, url=WORDS),
        "file": _block({"file_id": UNFIT}, file_id=WORDS),
    },
)
_TEXT = _block({"text": ""}, text=WORDS, citations=LIST, cache_control=_MARK)
_IMAGE = _block({"source": UNFIT}, source=_SOURCE, cache_control=_MARK)
_DOCUMENT = _block(
    {"source": UNFIT},
    source=Tagged(
        "type",
        {
            **_SOURCE.kinds,
            "text": _block({"data": UNFIT, "media_type": "text/plain"}, data=WORDS, media_type=WORDS),
            "content": _block({"content": UNFIT}, content=ANY),
        },
    ),
    title=WORDS,
    context=WORDS,
    citations=OBJECT,
    cache_control=_MARK,
)
_SEARCH_RESULT = _block(
    {"source": UNFIT, "title": "", "content": UNFIT},
    source=WORDS,
    title=WORDS,
    content=Items(_TEXT),
    citations=OBJECT,
    cache_control=_MARK,
)
_SHOWN: dict[str, Shape] = {
    "text": _TEXT,
    "image": _IMAGE,
    "document": _DOCUMENT,
    "search_result": _SEARCH_RESULT,
}
_RESULT_PART = Tagged(
    "type",
    {
        **_SHOWN,
        "tool_reference": _block({"tool_name": UNFIT}, tool_name=WORDS, cache_control=_MARK),
        "browser_state": OBJECT,
    },
    correct=_text_block,
)
_OTHERS = frozenset(
    {"compaction", "fallback", "mcp_tool_use", "container_upload", "tool_addition", "tool_removal"}
)
_GIVEN_BACK = ValueShape(
    "the type of a block",
    lambda value: isinstance(value, str) and bool(value),
    knows=lambda value: value.endswith("_tool_result") or value in _OTHERS,
    is_read=True,
)
"""What the provider wrote itself, and we only give back."""
_CONTENT = Tagged(
    "type",
    {
        **_SHOWN,
        "thinking": _block({"thinking": ""}, thinking=WORDS, signature=WORDS),
        "redacted_thinking": _block({"data": UNFIT}, data=WORDS),
        "tool_use": _block(
            {"id": "", "name": "", "input": {}},
            id=ID,
            name=WORDS,
            input=ARGUMENTS,
            caller=OBJECT,
            toolset_name=TEXT,
            cache_control=_MARK,
        ),
        "tool_result": _block(
            {"tool_use_id": ""},
            tool_use_id=ID,
            content=TextOr(OUTPUT, Items(_RESULT_PART)),
            is_error=FLAG,
            toolset_name=TEXT,
            cache_control=_MARK,
        ),
        "server_tool_use": _block(
            {"id": UNFIT, "name": UNFIT, "input": {}},
            id=TEXT,
            name=TEXT,
            input=OBJECT,
            caller=OBJECT,
            cache_control=_MARK,
        ),
    },
    ObjectShape({"type": _GIVEN_BACK}, {"type": UNFIT}),
    correct=_text_block,
)
MESSAGE = ObjectShape(
    {"role": ANY, "content": TextOr(CONTENT, Items(_CONTENT)), "output_config": OBJECT},
    {"content": ""},
    closed=True,
)
SYSTEM = TextOr(WORDS, Items(_TEXT))
_TOOL = ObjectShape(
    {
        "type": ANY,
        "name": WORDS,
        "description": WORDS,
        "input_schema": SCHEMA,
        "cache_control": _MARK,
        "strict": FLAG,
        "defer_loading": FLAG,
        "allowed_callers": LIST,
        "input_examples": LIST,
        "eager_input_streaming": FLAG,
    },
    {"name": "", "input_schema": {"type": "object", "properties": {}}},
    closed=True,
)
TOOLS = Items(Tagged("type", {"custom": _TOOL}, OBJECT, missing="custom"))
_ASKED = frozenset(
    {
        "model",
        "max_tokens",
        "metadata",
        "stop_sequences",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "tool_choice",
    }
    | {"thinking", "output_config", "output_format", "mcp_servers", "context_management", "service_tier"}
    | {"container", "inference_geo", "speed", "diagnostics", "thread", "billing_policy"}
)
REQUEST = ObjectShape(
    {
        **dict.fromkeys(_ASKED, ANY),
        "cache_control": _MARK,
        "messages": Items(MESSAGE),
        "system": SYSTEM,
        "tools": TOOLS,
    },
    closed=True,
)

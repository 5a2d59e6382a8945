"""What the Mistral wire takes in a request, place by place: every object has these fields and no others (MIS-08)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.shapes import UNFIT, Items, Nullable, ObjectShape, Tagged, TextOr, ValueShape
from segue.dialects.value_shapes import (
    ANY,
    CONTENT,
    FLAG,
    ID,
    LIST,
    OBJECT,
    OUTPUT,
    SCHEMA,
    WHOLE,
    WORDS,
    only,
)
from segue.transcript.value_text import json_of

if TYPE_CHECKING:
    from segue.dialects.shapes import Shape


def _fields(known: dict[str, Shape], needed: dict[str, Any] | None = None) -> ObjectShape:
    return ObjectShape(known, needed or {}, closed=True, nulls=False)


def _text_chunk(value: Any) -> Any:
    return {"type": "text", "text": value} if isinstance(value, str) else UNFIT


_ADDRESS = TextOr(WORDS, _fields({"url": WORDS, "detail": Nullable(WORDS)}, {"url": UNFIT}))
# An object is written out by the provider, and a text passes unread.
_ARGUMENTS = ValueShape("a JSON text or an object", lambda value: isinstance(value, str | dict), json_of)


def _chunk(name: str, shape: Shape, **others: Shape) -> ObjectShape:
    return _fields({"type": ANY, name: shape, **others}, {name: UNFIT})


_CHUNK = Tagged(
    "type",
    {
        "text": _fields({"type": ANY, "text": WORDS}, {"text": ""}),
        "image_url": _chunk("image_url", _ADDRESS),
        "audio_url": _chunk("audio_url", _ADDRESS),
        "input_audio": _chunk("input_audio", ANY),
        "document_url": _chunk("document_url", WORDS, document_name=Nullable(WORDS)),
        "file": _chunk("file_id", WORDS),
        "reference": _chunk("reference_ids", LIST),
        "thinking": _chunk(
            "thinking",
            Items(
                Tagged(
                    "type",
                    {"text": _fields({"type": ANY, "text": WORDS}, {"text": ""}), "reference": OBJECT},
                    correct=_text_chunk,
                )
            ),
            closed=FLAG,
            signature=Nullable(WORDS),
        ),
    },
    correct=_text_chunk,
)
_CONTENT = TextOr(CONTENT, Items(_CHUNK))
_FUNCTION = _fields({"name": WORDS, "arguments": _ARGUMENTS}, {"name": "", "arguments": ""})
_CALL = _fields(
    {"id": ID, "type": only("function"), "function": _FUNCTION, "index": WHOLE}, {"id": "", "function": UNFIT}
)
_OPERATOR = _fields({"role": only("system"), "content": _CONTENT}, {"content": ""})
MESSAGE = Tagged(
    "role",
    {
        "system": _OPERATOR,
        "developer": _OPERATOR,
        "user": _fields(
            {"role": ANY, "content": _CONTENT, "tool_calls": Items(_CALL, some=True)}, {"content": ""}
        ),
        "assistant": _fields(
            {
                "role": ANY,
                "content": Nullable(_CONTENT),
                "tool_calls": Nullable(Items(_CALL)),
                "prefix": FLAG,
            }
        ),
        "tool": _fields(
            {
                "role": ANY,
                "content": TextOr(OUTPUT, _CONTENT.other),
                "tool_call_id": ID,
                "name": Nullable(WORDS),
                "tool_calls": Items(_CALL, some=True),
            },
            {"content": "", "tool_call_id": ""},
        ),
    },
    OBJECT,
)
_OFFERED = _fields(
    {"name": WORDS, "description": WORDS, "parameters": SCHEMA, "strict": FLAG},
    {"name": "", "parameters": {"type": "object", "properties": {}}},
)
TOOLS = Items(
    Tagged(
        "type",
        {"function": _fields({"type": only("function"), "function": _OFFERED}, {"function": UNFIT})},
        OBJECT,
        missing="function",
    )
)
_ASKED = frozenset(
    {
        "model",
        "temperature",
        "top_p",
        "max_tokens",
        "stream",
        "stop",
        "random_seed",
        "response_format",
        "tool_choice",
    }
    | {"presence_penalty", "frequency_penalty", "n", "prediction", "parallel_tool_calls", "prompt_mode"}
    | {"safe_prompt", "reasoning_effort", "metadata", "guardrails", "prompt_cache_key", "stream_options"}
)
REQUEST = ObjectShape({**dict.fromkeys(_ASKED, ANY), "messages": Items(MESSAGE), "tools": TOOLS}, closed=True)

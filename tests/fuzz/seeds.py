"""Requests that use as much of each wire as a request can."""

from __future__ import annotations

from typing import Any, Final

from interop.requests import ALL

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "enum": ["x"], "description": "d"},
        "b": {"type": "array", "items": {"$ref": "#/$defs/c"}},
    },
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"c": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}},
}
_IMAGE: Final = "data:image/png;base64,iVBORw0KGgo="
_FUNCTION: Final = {
    "type": "function",
    "function": {"name": "g", "description": "d", "parameters": _SCHEMA, "strict": True},
}
_CHAT: Final[dict[str, Any]] = {
    "reasoning_effort": "low",
    "tool_choice": {"type": "function", "function": {"name": "g"}},
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": _SCHEMA, "strict": True},
    },
    "stop": ["END"],
    "temperature": 0.5,
    "top_p": 0.9,
    "max_tokens": 100,
    "seed": 1,
    "stream": True,
    "stream_options": {"include_usage": True},
    "metadata": {"a": "b"},
    "logit_bias": {"1": 2},
}


def _more(name: str, messages: str, added: list[Any], **fields: Any) -> dict[str, Any]:
    request = ALL[name]
    return {**request, messages: [*request[messages], *added], **fields}


RICH: Final[dict[str, dict[str, Any]]] = {
    "openai_chat": _more(
        "openai_chat",
        "messages",
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": _IMAGE}},
                ],
            },
            {"role": "assistant", "content": None, "reasoning_content": "hm", "refusal": None},
            {"role": "user", "name": "u", "content": "go"},
        ],
        tools=[*ALL["openai_chat"]["tools"], _FUNCTION],
        **_CHAT,
    ),
    "anthropic": _more(
        "anthropic",
        "messages",
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "x"},
                ],
            },
            {"role": "user", "content": "go"},
        ],
        system=[{"type": "text", "text": "Be brief."}],
        thinking={"type": "enabled", "budget_tokens": 1024},
        tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
        stop_sequences=["END"],
        metadata={"user_id": "u"},
        output_config={"effort": "low"},
        temperature=1.0,
    ),
    "gemini": _more(
        "gemini",
        "contents",
        [
            {
                "role": "user",
                "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                    {"text": "x", "thought": True},
                ],
            }
        ],
        generationConfig={
            "temperature": 1.0,
            "stopSequences": ["END"],
            "thinkingConfig": {"thinkingBudget": 10, "includeThoughts": True},
            "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        },
        toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}},
        safetySettings=[{"category": "x", "threshold": "y"}],
    ),
    "openai_responses": _more(
        "openai_responses",
        "input",
        [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "x",
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "x", "annotations": []}],
            },
            {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": _IMAGE}]},
        ],
        reasoning={"effort": "low", "summary": "auto"},
        text={
            "format": {"type": "json_schema", "name": "n", "schema": _SCHEMA, "strict": True},
            "verbosity": "low",
        },
        tool_choice={"type": "function", "name": "get_weather"},
        include=["reasoning.encrypted_content"],
        store=False,
        max_output_tokens=100,
    ),
    "mistral": _more(
        "mistral",
        "messages",
        [],
        **{**_CHAT, "tool_choice": "any", "reasoning_effort": "high", "prompt_mode": "reasoning"},
    ),
    "ollama": _more(
        "ollama",
        "messages",
        [
            {"role": "user", "content": "see", "images": ["iVBORw0KGgo="]},
            {"role": "assistant", "content": "x", "thinking": "hm"},
        ],
        options={"temperature": 1.0, "num_predict": 5, "stop": ["END"]},
        think="low",
        format=_SCHEMA,
        keep_alive="5m",
    ),
}

"""Small native requests to say things with in the tests of the Ollama emulator."""

from __future__ import annotations

from typing import Any

MODEL = "qwen3:8b"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def user(content: Any = "Weather in Paris?", **extra: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **extra}


def calling(arguments: Any, **extra: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "get_weather", "arguments": arguments}, **extra}],
    }


def chat(*messages: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": list(messages or (user(),)), **extra}

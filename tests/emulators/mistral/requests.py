"""Small requests to say things with in the tests of the Mistral emulator."""

from __future__ import annotations

from typing import Any

from segue.emulators.model.model_facts import facts_for
from segue.emulators.rules import Context

MODEL = "ministral-8b-latest"
FIRST, SECOND = "aB3dE5f7G", "hI9jK1m3N"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def user(content: Any = "hi") -> dict[str, Any]:
    return {"role": "user", "content": content}


def system(content: Any = "be kind") -> dict[str, Any]:
    return {"role": "system", "content": content}


def assistant(content: Any = None, *calls: dict[str, Any], **extra: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **extra}
    return {**message, "tool_calls": list(calls)} if calls else message


def call(
    call_id: str = FIRST, name: str = "get_weather", arguments: Any = "{}", **extra: Any
) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **extra}


def tool(call_id: str | None = FIRST, content: Any = "18C", **extra: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **extra}


def chat(*messages: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": list(messages), **extra}


def context(model: str = MODEL, **extra: Any) -> Context:
    return Context(model=model, facts=facts_for("mistral", model), **extra)

"""Requests to break one rule at a time."""

from __future__ import annotations

from typing import Any

from emulators.judge import Judge
from segue.emulators.openai_chat.checks import complaints

judge = Judge(complaints, "openai", "gpt-4.1")
USER = {"role": "user", "content": "Weather in Paris and Rome?"}
NAME_PATTERN = "^[a-zA-Z0-9_-]+$"


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4.1", "messages": list(messages), **more}


def call(call_id: str = "call_a1", **function: Any) -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "get_weather", "arguments": "{}", **function},
    }


def calling(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def result(call_id: str = "call_a1", content: Any = "18") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "get_weather", **function}}


VALID = body(
    {"role": "developer", "content": "You are terse."},
    USER,
    {
        "role": "assistant",
        "content": "Checking both.",
        "tool_calls": [
            call("call_a1", arguments='{"city":"Paris"}'),
            call("call_a2", arguments='{"city":"Rome"}'),
        ],
    },
    result("call_a1", '{"c":18}'),
    result("call_a2", "Error: timeout contacting weather service"),
    {"role": "assistant", "content": "Paris 18C; Rome unavailable."},
    {"role": "user", "content": "Thanks. Tomorrow?"},
    stream=True,
    stream_options={"include_usage": True},
    parallel_tool_calls=True,
    tool_choice="auto",
    tools=[
        tool(
            description="Weather by city",
            strict=True,
            parameters={
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        )
    ],
)

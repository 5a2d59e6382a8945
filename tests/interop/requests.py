"""The same small conversation with two parallel calls, as each provider's users would have it on disk."""

from __future__ import annotations

import json
from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


def openai_chat(model: str = "gpt-4.1") -> dict[str, Any]:
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Paris and Rome?"},
            {
                "role": "assistant",
                "content": "Checking both.",
                "tool_calls": [_chat_call("call_paris", "Paris"), _chat_call("call_rome", "Rome")],
            },
            {"role": "tool", "tool_call_id": "call_paris", "content": "18C"},
            {"role": "tool", "tool_call_id": "call_rome", "content": "21C"},
            {"role": "assistant", "content": "Paris 18C, Rome 21C."},
            {"role": "user", "content": "And Oslo?"},
        ],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}],
    }


def _chat_call(call_id: str, city: str) -> dict[str, Any]:
    arguments = json.dumps({"city": city})
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def anthropic(model: str = "claude-sonnet-4-6") -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": 1000,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Weather in Paris and Rome?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Two lookups.", "signature": "c2lnbmVk"},
                    {"type": "text", "text": "Checking both."},
                    {
                        "type": "tool_use",
                        "id": "toolu_paris",
                        "name": "get_weather",
                        "input": {"city": "Paris"},
                    },
                    {
                        "type": "tool_use",
                        "id": "toolu_rome",
                        "name": "get_weather",
                        "input": {"city": "Rome"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_paris", "content": "18C"},
                    {"type": "tool_result", "tool_use_id": "toolu_rome", "content": "21C"},
                ],
            },
            {"role": "assistant", "content": "Paris 18C, Rome 21C."},
            {"role": "user", "content": "And Oslo?"},
        ],
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    }


def gemini() -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Weather in Paris and Rome?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Checking both."},
                    {
                        "functionCall": {"id": "fc_paris", "name": "get_weather", "args": {"city": "Paris"}},
                        "thoughtSignature": "c2lnbmVk",
                    },
                    {"functionCall": {"id": "fc_rome", "name": "get_weather", "args": {"city": "Rome"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    _response("fc_paris", "18C"),
                    _response("fc_rome", "21C"),
                ],
            },
            {"role": "model", "parts": [{"text": "Paris 18C, Rome 21C."}]},
            {"role": "user", "parts": [{"text": "And Oslo?"}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": SCHEMA}]}],
    }


def _response(call_id: str, output: str) -> dict[str, Any]:
    return {"functionResponse": {"id": call_id, "name": "get_weather", "response": {"output": output}}}


def openai_responses(model: str = "gpt-5.6") -> dict[str, Any]:
    return {
        "model": model,
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Weather in Paris and Rome?"},
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAsealed"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Checking both."}],
            },
            _item_call("call_paris", "Paris"),
            _item_call("call_rome", "Rome"),
            {"type": "function_call_output", "call_id": "call_paris", "output": "18C"},
            {"type": "function_call_output", "call_id": "call_rome", "output": "21C"},
            {"role": "assistant", "content": "Paris 18C, Rome 21C."},
            {"role": "user", "content": "And Oslo?"},
        ],
        "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA}],
    }


def _item_call(call_id: str, city: str) -> dict[str, Any]:
    arguments = json.dumps({"city": city})
    return {"type": "function_call", "call_id": call_id, "name": "get_weather", "arguments": arguments}


def mistral(model: str = "mistral-large-latest") -> dict[str, Any]:
    body = openai_chat(model)
    text = json.dumps(body).replace("call_paris", "aB3dE5f7G").replace("call_rome", "hI9jK1m3N")
    renamed: dict[str, Any] = json.loads(text)
    return renamed


def ollama(model: str = "qwen3") -> dict[str, Any]:
    def call(city: str) -> dict[str, Any]:
        return {"function": {"name": "get_weather", "arguments": {"city": city}}}

    return {
        "model": model,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Paris and Rome?"},
            {"role": "assistant", "content": "Checking both.", "tool_calls": [call("Paris"), call("Rome")]},
            {"role": "tool", "content": "18C", "tool_name": "get_weather"},
            {"role": "tool", "content": "21C", "tool_name": "get_weather"},
            {"role": "assistant", "content": "Paris 18C, Rome 21C."},
            {"role": "user", "content": "And Oslo?"},
        ],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}],
        "options": {"temperature": 0},
        "stream": False,
    }


ALL: dict[str, dict[str, Any]] = {
    "openai_chat": openai_chat(),
    "openai_responses": openai_responses(),
    "anthropic": anthropic(),
    "gemini": gemini(),
    "mistral": mistral(),
    "ollama": ollama(),
    "kimi": openai_chat("kimi-k2-0905-preview"),
    "deepseek": openai_chat("deepseek-chat"),
}

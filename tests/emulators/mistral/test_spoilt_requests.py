"""However a request is spoilt, Mistral, Moonshot, DeepSeek and Ollama answer it, and none of them falls over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.anthropic.mutation import spoilt
from segue.emulators.app import App
from segue.emulators.in_process import ask_now

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Paris", "Rome"]},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "who": {"type": "array", "items": {"$ref": "#/$defs/Person"}},
    },
    "required": ["city"],
    "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": SCHEMA}}
]


def conversation(call: dict[str, Any], spoken: Any, **beside: Any) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "You are a weather assistant."},
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": spoken, "tool_calls": [call], **beside},
        {"role": "tool", "tool_call_id": call["id"], "content": "18C"},
    ]


def call(arguments: Any, call_id: str = "aB3dE5f7G") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "One lookup."}], "closed": True}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SHOWN = {"role": "user", "content": [{"type": "text", "text": "And this?"}, PICTURE]}
MISTRAL = {
    "model": "mistral-small-latest",
    "messages": [*conversation(call("{}"), [THOUGHT, {"type": "text", "text": "Wait."}]), SHOWN],
    "tools": TOOLS,
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "max_tokens": 9,
    "reasoning_effort": "high",
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
}
KIMI = {
    "model": "kimi-k2.6",
    "messages": [*conversation(call("{}"), "Wait.", reasoning_content="One."), SHOWN],
    "tools": TOOLS,
    "tool_choice": "auto",
    "thinking": {"type": "enabled", "keep": "all"},
    "stream": True,
    "stream_options": {"include_usage": True},
}
DEEPSEEK = {
    "model": "deepseek-v4-flash",
    "messages": conversation(call("{}"), "Wait.", reasoning_content="One."),
    "tools": TOOLS,
    "thinking": {"type": "enabled"},
    "max_tokens": 9,
}
NATIVE = {
    "model": "qwen3.5",
    "messages": [
        *conversation(
            {"id": "c", "function": {"name": "f", "arguments": {"a": 1}, "index": 0}},
            "Wait.",
            thinking="One.",
        ),
        {"role": "user", "content": "And this?", "images": ["iVBORw0KGgo="]},
    ],
    "tools": TOOLS,
    "think": "low",
    "truncate": False,
    "keep_alive": "5m",
    "format": SCHEMA,
    "options": {"num_ctx": 8192, "num_predict": 5, "stop": ["."], "temperature": 0.5},
}
COMPATIBLE = {
    "model": "qwen3:8b",
    "messages": [*conversation(call('{"city":"Paris"}'), None, reasoning="One."), SHOWN],
    "tools": TOOLS,
    "reasoning": {"effort": "low"},
    "max_tokens": 9,
}
EMBEDDED = {"input": ["a", "b"], "encoding_format": "base64"}
ROUTES = [
    ("/mistral/v1/chat/completions", MISTRAL),
    ("/mistral/v1/embeddings", {"model": "mistral-embed", "output_dimension": 8, **EMBEDDED}),
    ("/kimi/v1/chat/completions", KIMI),
    ("/kimi/v1/tokenizers/estimate-token-count", KIMI),
    ("/deepseek/chat/completions", DEEPSEEK),
    ("/ollama/api/chat", NATIVE),
    ("/ollama/v1/chat/completions", COMPATIBLE),
    ("/ollama/api/embed", {"model": "nomic-embed-text", "dimensions": 8, "truncate": False, **EMBEDDED}),
    ("/ollama/v1/embeddings", {"model": "nomic-embed-text", "dimensions": 8, **EMBEDDED}),
    ("/ollama/api/show", {"model": "qwen3", "verbose": True}),
    ("/ollama/api/pull", {"model": "llama3.1", "stream": False}),
]


@pytest.mark.parametrize(("url", "body"), ROUTES)
def test_the_unspoilt_request_is_accepted(url: str, body: dict[str, Any]) -> None:
    assert ask_now(App(), "POST", url, json=body).status == 200


@pytest.mark.parametrize(("url", "body"), ROUTES)
@settings(max_examples=60)
@given(data=st.data())
def test_a_spoilt_request_is_answered(url: str, body: dict[str, Any], data: st.DataObject) -> None:
    app = App()
    app.emulator.strict = data.draw(st.booleans())
    answer = ask_now(app, "POST", url, json=data.draw(spoilt([body])))
    assert answer.status < 500 or app.emulator.log[-1].rule is not None

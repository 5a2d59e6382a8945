"""Whatever is sent to whichever route: an answer that is not the server's fault, and soon."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.emulators import provider_paths
from segue.emulators.app import App
from segue.emulators.in_process import ask_now

ROUTES = [
    (provider, method, pattern)
    for provider, folders in provider_paths.mounted().items()
    for folder in folders
    for method, pattern, _ in folder.routes
]
KEYS = [
    "model",
    "messages",
    "input",
    "role",
    "content",
    "type",
    "text",
    "tool_calls",
    "id",
    "call_id",
    "function",
    "name",
    "arguments",
    "tools",
    "parameters",
    "strict",
    "tool_choice",
    "stream",
    "stream_options",
    "max_tokens",
    "contents",
    "parts",
    "functionCall",
    "functionResponse",
    "response",
    "generationConfig",
    "system",
    "tool_use_id",
    "tool_use",
    "tool_result",
    "thinking",
    "signature",
    "budget_tokens",
    "output",
    "summary",
    "encrypted_content",
    "previous_response_id",
    "tool_call_id",
    "image_url",
    "url",
    "source",
    "data",
    "prompt",
    "options",
    "format",
    "think",
    "properties",
    "required",
    "items",
    "anyOf",
    "dimensions",
    "n",
    "temperature",
    "store",
    "reasoning",
    "effort",
    "inlineData",
    "mimeType",
    "role",
    "systemInstruction",
    "toolConfig",
    "thoughtSignature",
    "requests",
    "taskType",
    "input_schema",
    "cache_control",
    "tool_name",
    "done",
]
WORDS = [
    "user",
    "assistant",
    "system",
    "tool",
    "developer",
    "model",
    "message",
    "text",
    "function",
    "function_call",
    "function_call_output",
    "tool_use",
    "tool_result",
    "thinking",
    "reasoning",
    "image_url",
    "image",
    "input_text",
    "output_text",
    "gpt-4.1",
    "gpt-5.5",
    "o3",
    "claude-opus-5-5",
    "gemini-3-pro",
    "call_1",
    "auto",
    "none",
    "required",
    "any",
    "object",
    "string",
    "array",
    "enabled",
    "base64",
    "item_reference",
]
HEADERS = {
    "authorization": "Bearer sk-x",
    "x-api-key": "k",
    "x-goog-api-key": "k",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=8)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=40,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(WORDS[:6]), "content": values}, optional={"tool_calls": values}
    )
    | st.fixed_dictionaries(
        {"type": st.sampled_from(WORDS), "call_id": values, "id": values, "output": values}
    )
    | st.fixed_dictionaries({"role": st.sampled_from(["user", "model", "function"]), "parts": values}),
    max_size=4,
)
requests = st.fixed_dictionaries(
    {"model": st.sampled_from(["gpt-4.1", "gpt-5.5", "claude-opus-5-5", "m"]) | values},
    optional={
        "messages": messages,
        "input": messages | values,
        "contents": messages | values,
        "tools": values,
        "stream": st.booleans(),
        "max_tokens": st.integers(0, 5000) | values,
        "tool_choice": values,
        "system": values,
        "options": values,
        "prompt": values,
        "generationConfig": values,
    },
)


def brought_down(body: bytes) -> list[str]:
    """The routes that answer this with a status of 500 or above, except where the real server's own rule says so."""
    return [" ".join(route) for route in ROUTES if not survives(route, body)]


def survives(route: tuple[str, str, str], body: bytes) -> bool:
    provider, method, pattern = route
    path = re.sub(r"\{\w+(:path)?\}", "m", pattern)
    app = App()
    app.emulator.strict = len(body) % 2 == 0
    answer = ask_now(app, method, f"/{provider}{path}", body=body, headers=HEADERS)
    return answer.status < 500 or app.emulator.log[-1].rule is not None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=values | requests)
def test_no_json_brings_a_server_down(body: Any) -> None:
    assert brought_down(msgspec.json.encode(body)) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"null", b'"' + b"x" * 1_000_000 + b'"'],
    ids=["empty", "open", "binary", "deep-list", "deep-object", "null", "long"],
)
def test_no_bytes_bring_a_server_down(body: bytes) -> None:
    assert brought_down(body) == []


def _deep_tools(levels: int) -> list[bytes]:
    schema = b'{"type":"object","properties":{"a":' * levels + b"{}" + b"}}" * levels
    return [
        b'{"model":"gpt-4.1","messages":[{"role":"user","content":"x"}],"input":"x","tools":[{"type":"function",'
        b'"name":"f","function":{"name":"f","strict":true,"parameters":'
        + schema
        + b'},"parameters":'
        + schema
        + b"}]}",
        b'{"model":"claude-opus-5-5","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f",'
        b'"input_schema":' + schema + b"}]}",
        b'{"contents":[{"role":"user","parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f",'
        b'"parameters":' + schema + b"}]}]}",
    ]


@pytest.mark.parametrize("levels", [20, 60, 300])
def test_no_depth_brings_a_server_down(levels: int) -> None:
    assert [(number, brought_down(body)) for number, body in enumerate(_deep_tools(levels))] == [
        (0, []),
        (1, []),
        (2, []),
    ]

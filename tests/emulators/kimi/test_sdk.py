"""OpenAI's Python client speaks to the servers that look like OpenAI: Moonshot, DeepSeek and Ollama's /v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from segue.emulators.model.model_reply import Call, Reply, Say, Think

if TYPE_CHECKING:
    from segue.emulators.server import Served

openai: Any = pytest.importorskip("openai", reason="OpenAI's client is not installed")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
HI = [{"role": "user", "content": "Weather in Paris?"}]
CALLS = Reply(
    pieces=(Think("Two."), Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"}))
)
WORDS = Reply(pieces=(Think("Mild."), Say("Both are mild.")), chunk_size=5)
SERVERS = [
    ("kimi", "/v1", "kimi-k2.6", "reasoning_content"),
    ("deepseek", "", "deepseek-v4-flash", "reasoning_content"),
    ("ollama", "/v1", "qwen3:8b", "reasoning"),
]


def client_of(served: Served, provider: str, path: str) -> Any:
    return openai.OpenAI(base_url=served.url(provider) + path, api_key="k", max_retries=0)


@pytest.mark.parametrize(("provider", "path", "model", "field"), SERVERS)
def test_a_tool_turn_with_thinking_streamed_and_whole(
    segue_emulator_server: Served, provider: str, path: str, model: str, field: str
) -> None:
    responder: Any = segue_emulator_server.emulator.responder
    responder.add(CALLS, WORDS)
    with client_of(segue_emulator_server, provider, path) as client:
        with client.chat.completions.stream(model=model, messages=HI, tools=TOOLS) as stream:
            for _ in stream:
                pass
            said = stream.get_final_completion().choices[0].message
        assert [call.function.name for call in said.tool_calls] == ["get_weather", "get_weather"]
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in said.tool_calls
        ]
        back = {"role": "assistant", "content": None, field: "Two.", "tool_calls": calls}
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "18"} for call in calls]
        whole = client.chat.completions.create(model=model, messages=[*HI, back, *results], tools=TOOLS)
    assert whole.choices[0].message.content == "Both are mild."
    assert getattr(whole.choices[0].message, field) == "Mild."
    assert whole.usage.total_tokens > 0


@pytest.mark.parametrize(("provider", "path", "model", "field"), SERVERS)
def test_a_refusal_raises_the_client_s_error(
    segue_emulator_server: Served, provider: str, path: str, model: str, field: str
) -> None:
    messages = [{"role": "user", "content": {"not": "text"}}]
    with (
        client_of(segue_emulator_server, provider, path) as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.chat.completions.create(model=model, messages=messages)
    assert caught.value.status_code in (400, 422)


@pytest.mark.parametrize(("provider", "path", "model", "field"), SERVERS)
def test_models_are_listed(
    segue_emulator_server: Served, provider: str, path: str, model: str, field: str
) -> None:
    with client_of(segue_emulator_server, provider, path) as client:
        assert model in [listed.id for listed in client.models.list()]

"""OpenAI's own Python client, pointed at the emulator: it must not notice the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from segue.emulators.faults import Fault

if TYPE_CHECKING:
    from segue.emulators.server import Served

openai: Any = pytest.importorskip("openai", reason="OpenAI's client is not installed")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
FLAT_TOOLS = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
def client(segue_emulator_server: Served) -> Any:
    with openai.OpenAI(
        base_url=segue_emulator_server.url("openai") + "/v1", api_key="k", max_retries=0
    ) as made:
        yield made


def test_a_tool_turn_over_chat(client: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": "weather?"}]
    with client.chat.completions.stream(model="gpt-4.1", messages=messages, tools=TOOLS) as stream:
        for _ in stream:
            pass
        said = stream.get_final_completion().choices[0].message
    calls = [
        {
            "id": c.id,
            "type": "function",
            "function": {"name": c.function.name, "arguments": c.function.arguments},
        }
        for c in said.tool_calls
    ]
    messages.append({"role": "assistant", "content": said.content, "tool_calls": calls})
    with pytest.raises(openai.BadRequestError, match="must be followed by tool messages"):
        client.chat.completions.create(model="gpt-4.1", messages=messages)
    messages += [{"role": "tool", "tool_call_id": call["id"], "content": "18"} for call in calls]
    done = client.chat.completions.create(model="gpt-4.1", messages=messages)
    assert done.choices[0].message.content.startswith("Done.")


def test_a_tool_turn_over_responses(client: Any) -> None:
    with client.responses.stream(
        model="gpt-5.5", input="weather?", tools=FLAT_TOOLS, reasoning={"summary": "auto"}
    ) as stream:
        for _ in stream:
            pass
        first = stream.get_final_response()
    assert first.output[0].type == "reasoning"
    outputs = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "18"}
        for item in first.output
        if item.type == "function_call"
    ]
    done = client.responses.create(model="gpt-5.5", input=outputs, previous_response_id=first.id)
    assert done.output_text.startswith("Done.")
    assert client.responses.input_tokens.count(model="gpt-5.5", input="hello").input_tokens > 0


def test_models_and_embeddings(client: Any) -> None:
    assert "gpt-4.1" in [model.id for model in client.models.list()]
    vectors = client.embeddings.create(model="text-embedding-3-small", input=["a", "b"])
    assert [len(item.embedding) for item in vectors.data] == [1536, 1536]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nope")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(status=429), "RateLimitError"),
        (Fault(status=500), "InternalServerError"),
        (Fault(kind="cut", at_byte=50), "APIConnectionError"),
        (Fault(kind="silence", seconds=0.05), "APIConnectionError"),
    ],
)
def test_trouble_raises_the_clients_own_errors(
    client: Any, segue_emulator_server: Served, fault: Fault, error: str
) -> None:
    segue_emulator_server.emulator.faults.append(fault)
    with pytest.raises(getattr(openai, error)):
        client.chat.completions.create(model="gpt-4.1", messages=HI)


def test_an_error_inside_a_stream_is_raised(client: Any, segue_emulator_server: Served) -> None:
    segue_emulator_server.emulator.faults.append(Fault(kind="error_mid_stream", status=503))
    with pytest.raises(openai.APIError, match="overloaded"):
        list(client.chat.completions.create(model="gpt-4.1", messages=HI, stream=True))


def test_the_client_waits_as_it_is_told(client: Any, segue_emulator_server: Served) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=429, retry_after=0.1))
    done = client.with_options(max_retries=1).chat.completions.create(model="gpt-4.1", messages=HI)
    assert done.choices[0].message.content == "You said: hi"

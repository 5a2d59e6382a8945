"""Mistral's own Python client, pointed at the emulator: it must not notice the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulators.mistral.requests import TOOL
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Reply, Say, Think

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.server import Served

mistral: Any = pytest.importorskip("mistralai.client", reason="Mistral's client is not installed")
errors: Any = pytest.importorskip("mistralai.client.errors", reason="Mistral's client is not installed")

HI = [{"role": "user", "content": "Weather in Paris?"}]
CALLS = Reply(
    pieces=(Think("Two."), Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"}))
)
WORDS = Reply(pieces=(Think("Mild."), Say("Both are mild.")), chunk_size=5)
MODELS = ["magistral-medium-latest", "mistral-small-latest", "zai-glm-5-2"]


@pytest.fixture
def client(segue_emulator_server: Served) -> Iterator[Any]:
    with mistral.Mistral(api_key="k", server_url=segue_emulator_server.url("mistral")) as made:
        yield made


def script(served: Served, *replies: Reply) -> None:
    responder: Any = served.emulator.responder
    responder.add(*replies)


def options(model: str) -> dict[str, Any]:
    effort = {"reasoning_effort": "high"} if model == "mistral-small-latest" else {}
    return {"model": model, "tools": [TOOL], **effort}


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(chunk.text for chunk in content or () if chunk.type == "text")


@pytest.mark.parametrize("model", MODELS)
def test_a_tool_turn_with_thinking_whole_and_streamed(
    segue_emulator_server: Served, client: Any, model: str
) -> None:
    script(segue_emulator_server, CALLS, WORDS)
    said = client.chat.complete(messages=HI, **options(model)).choices[0].message
    assert [chunk.type for chunk in said.content] == ["thinking"]
    results = [{"role": "tool", "tool_call_id": made.id, "content": "18"} for made in said.tool_calls]
    chunks = [event.data for event in client.chat.stream(messages=[*HI, said, *results], **options(model))]
    assert "".join(text_of(chunk.choices[0].delta.content) for chunk in chunks) == "Both are mild."
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens > 0


@pytest.mark.parametrize("model", MODELS)
def test_streamed_calls_reach_the_client(segue_emulator_server: Served, client: Any, model: str) -> None:
    script(segue_emulator_server, CALLS)
    chunks = [event.data for event in client.chat.stream(messages=HI, **options(model))]
    made = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert [call.function.name for call in made if call.function.name] == ["get_weather", "get_weather"]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.rule("MIS-V24")
def test_a_misfit_raises_the_client_s_validation_error(client: Any) -> None:
    with pytest.raises(errors.HTTPValidationError) as caught:
        client.chat.complete(model="mistral-medium-latest", messages=HI, temperature=9)
    assert caught.value.status_code == 422
    assert caught.value.data.detail[0].msg == "Input should be less than or equal to 1.5"


@pytest.mark.rule("MIS-04")
def test_a_refused_conversation_raises_the_client_s_error(client: Any) -> None:
    with pytest.raises(errors.SDKError) as caught:
        client.chat.complete(
            model="mistral-medium-latest", messages=[*HI, {"role": "assistant", "content": "so"}]
        )
    assert caught.value.status_code == 400
    assert "Expected last role User or Tool" in caught.value.body


def test_trouble_raises_the_client_s_error(segue_emulator_server: Served, client: Any) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=429))
    with pytest.raises(errors.SDKError) as caught:
        client.chat.complete(model="mistral-medium-latest", messages=HI)
    assert caught.value.status_code == 429


def test_models_and_embeddings_are_understood(client: Any) -> None:
    models = client.models.list().data
    assert any(model.id == "mistral-embed" and not model.capabilities.completion_chat for model in models)
    made = client.embeddings.create(model="mistral-embed", inputs=["a", "b"])
    assert [len(entry.embedding) for entry in made.data] == [1024, 1024]

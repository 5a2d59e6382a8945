"""Ollama's own Python client, pointed at the emulator: it must not notice the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulators.ollama.requests import MODEL, TOOL
from segue.emulators.model.model_reply import Call, Reply, Say, Think

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.server import Served

ollama: Any = pytest.importorskip("ollama", reason="Ollama's client is not installed")

HI = [{"role": "user", "content": "Weather in Paris?"}]
CALLS = Reply(
    pieces=(Think("Two."), Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"}))
)
WORDS = Reply(pieces=(Think("Mild."), Say("Both are mild.")), chunk_size=5)


@pytest.fixture
def client(segue_emulator_server: Served) -> Iterator[Any]:
    with ollama.Client(host=segue_emulator_server.url("ollama")) as made:
        yield made


def script(served: Served, *replies: Reply) -> None:
    responder: Any = served.emulator.responder
    responder.add(*replies)


def test_a_tool_turn_with_thinking_whole_and_streamed(segue_emulator_server: Served, client: Any) -> None:
    script(segue_emulator_server, CALLS, WORDS)
    said = client.chat(model=MODEL, messages=HI, tools=[TOOL]).message
    assert said.thinking == "Two."
    assert [made.function.arguments["city"] for made in said.tool_calls] == ["Paris", "Rome"]
    results = [{"role": "tool", "tool_name": made.function.name, "content": "18"} for made in said.tool_calls]
    lines = list(client.chat(model=MODEL, messages=[*HI, said, *results], tools=[TOOL], stream=True))
    assert "".join(line.message.content for line in lines) == "Both are mild."
    assert (lines[-1].done, lines[-1].done_reason) == (True, "stop")


@pytest.mark.rule("OLL-11")
def test_refusals_raise_the_client_s_error(client: Any) -> None:
    with pytest.raises(ollama.ResponseError) as caught:
        client.chat(model="nonesuch", messages=HI)
    assert (caught.value.status_code, caught.value.error) == (404, "model 'nonesuch' not found")
    with pytest.raises(ollama.ResponseError, match="does not support tools"):
        client.chat(model="gemma3:4b", messages=HI, tools=[TOOL])


def test_models_are_pulled_shown_listed_and_deleted(client: Any) -> None:
    states = [state.status for state in client.pull("llama3.1", stream=True)]
    assert (states[0], states[-1]) == ("pulling manifest", "success")
    assert client.show("llama3.1").capabilities == ["completion", "tools"]
    assert "llama3.1:latest" in [model.model for model in client.list().models]
    client.chat(model="llama3.1", messages=HI)
    assert [model.name for model in client.ps().models] == ["llama3.1:latest"]
    assert client.delete("llama3.1").status == "success"
    with pytest.raises(ollama.ResponseError, match="file does not exist"):
        list(client.pull("nonesuch", stream=True))


def test_embeddings_are_understood(client: Any) -> None:
    made = client.embed(model="nomic-embed-text", input=["a", "b"])
    assert [len(vector) for vector in made.embeddings] == [768, 768]
    assert len(client.embeddings(model="nomic-embed-text", prompt="a").embedding) == 768

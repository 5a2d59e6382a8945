"""Google's own Python client, pointed at the emulator: it must not notice the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulators.gemini.requests import SCHEMA, THREE
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Reply, Say, Think

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.server import Served

genai: Any = pytest.importorskip("google.genai", reason="Google's client is not installed")
types: Any = genai.types
errors: Any = pytest.importorskip("google.genai.errors")


@pytest.fixture
def client(segue_emulator_server: Served) -> Iterator[Any]:
    options = types.HttpOptions(base_url=segue_emulator_server.url("gemini"))
    with genai.Client(api_key="k", http_options=options) as made:
        yield made


def settings() -> Any:
    declaration = types.FunctionDeclaration(name="get_weather", parameters_json_schema=SCHEMA)
    return types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declaration])],
        thinking_config=types.ThinkingConfig(include_thoughts=True),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )


def script(served: Served, *replies: Reply) -> None:
    responder: Any = served.emulator.responder
    responder.add(*replies)


def said_by(role: str, *parts: Any) -> Any:
    return types.Content(role=role, parts=list(parts))


@pytest.mark.rule("GEM-20", "GEM-21", "GEM-50")
def test_a_tool_turn_with_thinking_whole_and_streamed(segue_emulator_server: Served, client: Any) -> None:
    calls = (Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"}))
    script(
        segue_emulator_server,
        Reply(pieces=(Think("Two lookups."), Say("Checking."), *calls)),
        Reply(pieces=(Think("Mild."), Say("Both are mild."))),
    )
    asked = {"model": THREE, "config": settings()}
    first = client.models.generate_content(contents="hi", **asked)
    results = [
        types.Part(
            function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": 18})
        )
        for call in first.function_calls
    ]
    contents = [
        said_by("user", types.Part(text="hi")),
        first.candidates[0].content,
        said_by("user", *results),
    ]
    chunks = list(client.models.generate_content_stream(contents=contents, **asked))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    assert "".join(part.text for part in parts if not part.thought) == "Both are mild."
    assert parts[-1].thought_signature
    contents += [said_by("model", *parts), said_by("user", types.Part(text="more"))]
    assert client.models.generate_content(contents=contents, **asked).candidates
    assert client.models.count_tokens(model=THREE, contents=contents).total_tokens > 100


@pytest.mark.rule("GEM-23")
def test_refusals_raise_the_clients_own_errors(client: Any) -> None:
    foreign = types.Part(text="hello", thought_signature=b"of somebody else")
    contents = [said_by("user", types.Part(text="hi")), said_by("model", foreign)]
    contents.append(said_by("user", types.Part(text="hi")))
    with pytest.raises(errors.ClientError, match="Corrupted thought signature"):
        client.models.generate_content(model=THREE, contents=contents)
    with pytest.raises(errors.ClientError, match="models/nope is not found"):
        client.models.generate_content(model="nope", contents="hi")


@pytest.mark.rule("GEM-44", "GEM-57")
def test_trouble_on_the_servers_side_raises_the_clients_own_errors(
    segue_emulator_server: Served, client: Any
) -> None:
    faults = segue_emulator_server.emulator.faults
    faults.append(Fault(status=429, retry_after=34.4))
    with pytest.raises(errors.ClientError, match="RESOURCE_EXHAUSTED") as caught:
        client.models.generate_content(model=THREE, contents="hi")
    assert caught.value.details["error"]["details"][-1]["retryDelay"] == "34.4s"
    faults.append(Fault(kind="error_mid_stream", status=503))
    with pytest.raises(errors.ServerError, match="overloaded"):
        list(client.models.generate_content_stream(model=THREE, contents="hi"))


@pytest.mark.rule("GEM-45", "GEM-47")
def test_embeddings_and_models(client: Any) -> None:
    shape = types.EmbedContentConfig(output_dimensionality=16)
    found = client.models.embed_content(model="gemini-embedding-001", contents=["a", "b"], config=shape)
    assert [len(embedding.values) for embedding in found.embeddings] == [16, 16]
    assert f"models/{THREE}" in [model.name for model in client.models.list(config={"page_size": 3})]
    assert client.models.get(model=THREE).thinking is True

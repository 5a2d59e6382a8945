"""The facts by which a server serves each wire."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest

from segue.conversation.events import Failed, Finished, ReplyStarted, TextDelta
from segue.dialects import DIALECTS
from segue.dialects.registry import WIRES
from segue.dialects.server_side.wire_server import EmbeddingRequest, ServedModel
from segue.errors import (
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    RateLimitError,
    RouteBusyError,
    TranscriptError,
)

T = TypeVar("T")


def present(value: T | None) -> T:
    assert value is not None
    return value


MODELS = (
    ServedModel(id="team", title="The team", context=200_000, output=8_000, images=True, reasoning=True),
    ServedModel(id="openai/vectors", embedding=True, tools=False),
)


@pytest.mark.parametrize("name", WIRES)
def test_every_wire_has_a_path_for_chats_and_no_path_twice(name: str) -> None:
    paths = DIALECTS[name].server.paths
    assert any(path.operation == "chat" for path in paths)
    assert len({(path.method, path.pattern) for path in paths}) == len(paths)


STREAM_ENDS = {
    "gemini_interactions": (b"interaction.completed", b'"event_type":"error"'),
    "openai_responses": (b'"response.completed"', b'"response.failed"'),
    "gemini": (b'"finishReason"', b'"error"'),
    "anthropic": (b'"message_stop"', b"event: error"),
    "ollama": (b'"done":true', b'"error"'),
    "mistral": (b"data: [DONE]", b'"object":"error"'),
    "openai_chat": (b"data: [DONE]", b'"error"'),
    "converse": (b"metadata", b"exception-type"),
}
"""What a stream holds in its last frames that is complete, and one that broke off."""


@pytest.mark.parametrize("name", WIRES)
def test_what_the_encoder_writes_ends_as_its_wire_does(name: str) -> None:
    dialect, (complete, failed) = DIALECTS[name], STREAM_ENDS[name]
    encoder = dialect.new_encoder("m")
    written = b"".join(encoder.feed(event) for event in (ReplyStarted("r", "m"), TextDelta(0, "Hello")))
    assert complete not in written
    assert failed not in written
    written = encoder.feed(Finished("stop")) + encoder.close()
    assert complete in written
    broken = dialect.new_encoder("m")
    written = broken.feed(TextDelta(0, "Hello")) + broken.feed(Failed(OverloadError("It broke off.")))
    assert failed in written


@pytest.mark.parametrize("name", WIRES)
def test_a_keep_alive_frame_is_no_event(name: str) -> None:
    dialect = DIALECTS[name]
    encoder, decoder = dialect.new_encoder("m"), dialect.new_decoder()
    pieces = [
        encoder.feed(ReplyStarted("r", "m")),
        encoder.feed(TextDelta(0, "Hello")),
        encoder.feed(TextDelta(0, " you")),
        encoder.feed(Finished("stop")) + encoder.close(),
    ]
    events = [event for piece in pieces for event in decoder.feed(dialect.server.keep_alive + piece)]
    events += decoder.close()
    assert [event.text for event in events if type(event) is TextDelta] == ["Hello", " you"]
    assert type(events[-1]) is Finished


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("status", [404, 405, 408, 413, 422, 426])
def test_a_refused_request_keeps_a_status_that_clients_know(name: str, status: int) -> None:
    error = InvalidRequestError("No.", status=status)
    sent, body = DIALECTS[name].encode_error(error)
    assert sent == status
    assert b"No." in body
    assert b"api_error" not in body
    assert b"INTERNAL" not in body


@pytest.mark.parametrize("name", WIRES)
def test_an_error_gives_the_seconds_to_wait(name: str) -> None:
    headers = DIALECTS[name].server.error_headers
    assert headers(RateLimitError("Wait.", retry_after=2.2))["retry-after"] == "3"
    assert headers(RouteBusyError("Wait.", retry_after=0.0))["retry-after"] == "1"
    assert "retry-after" not in headers(OverloadError("Busy."))


@pytest.mark.parametrize("name", ["anthropic", "openai_chat", "openai_responses"])
def test_an_sdk_does_not_repeat_what_can_only_fail_again(name: str) -> None:
    headers = DIALECTS[name].server.error_headers
    assert headers(CredentialsError("No key."))["x-should-retry"] == "false"
    assert "x-should-retry" not in headers(RateLimitError("Wait."))


def test_models_are_listed_in_the_form_of_each_wire() -> None:
    page = msgspec.json.decode(DIALECTS["anthropic"].server.encode_models(MODELS, {"limit": "1"}))
    assert page["data"][0]["display_name"] == "The team"
    assert page["has_more"]
    rest = DIALECTS["anthropic"].server.encode_models(MODELS, {"after_id": page["last_id"]})
    assert msgspec.json.decode(rest)["data"][0]["id"] == "openai/vectors"

    for name in ("openai_chat", "openai_responses", "mistral"):
        listed = msgspec.json.decode(DIALECTS[name].server.encode_models(MODELS, {}))
        assert [entry["id"] for entry in listed["data"]] == ["team", "openai/vectors"]

    gemini = msgspec.json.decode(DIALECTS["gemini"].server.encode_models(MODELS, {"pageSize": "1"}))
    assert gemini["models"][0]["name"] == "models/team"
    assert gemini["models"][0]["inputTokenLimit"] == 200_000
    assert gemini["nextPageToken"] == "1"

    tags = msgspec.json.decode(DIALECTS["ollama"].server.encode_models(MODELS, {}))
    assert [model["model"] for model in tags["models"]] == ["team", "openai/vectors"]
    shown = msgspec.json.decode(DIALECTS["ollama"].server.encode_model(MODELS[0]))
    assert shown["capabilities"] == ["completion", "tools", "vision", "thinking"]


def test_embeddings_are_read_and_written_on_each_wire_that_has_them() -> None:
    vectors = [[0.5, 1.0], [0.0, -1.0]]
    openai = DIALECTS["openai_chat"].server
    asked = present(openai.decode_embedding)(
        {"input": ["a", "b"], "dimensions": 2, "encoding_format": "base64"}
    )
    assert asked == EmbeddingRequest(texts=("a", "b"), dimensions=2, base64=True)
    answer = present(openai.encode_embeddings)(asked, vectors, model="m", tokens=2)
    assert msgspec.json.decode(answer)["data"][1]["embedding"] == "AAAAAAAAgL8="
    asked = present(openai.decode_embedding)({"input": "a"})
    answer = present(openai.encode_embeddings)(asked, vectors, model="m", tokens=2)
    assert msgspec.json.decode(answer)["usage"] == {"prompt_tokens": 2, "total_tokens": 2}
    gemini = DIALECTS["gemini"].server
    one = present(gemini.decode_embedding)({"content": {"parts": [{"text": "a"}]}})
    assert one == EmbeddingRequest(texts=("a",), single=True)
    assert (
        present(gemini.encode_embeddings)(one, vectors[:1], model="m", tokens=1)
        == b'{"embedding":{"values":[0.5,1.0]}}'
    )
    older = present(DIALECTS["ollama"].server.decode_embedding)({"prompt": "a"})
    assert older.single


def test_tokens_of_one_model_are_not_embedded_by_another() -> None:
    with pytest.raises(TranscriptError, match="Only texts"):
        present(DIALECTS["openai_chat"].server.decode_embedding)({"input": [[1, 2, 3]]})


def test_gemini_without_events_streams_one_json_array() -> None:
    server = DIALECTS["gemini"].server
    assert server.reframe("chat", {"alt": "sse"}, stream=True) is None
    array = present(server.reframe("chat", {}, stream=True))
    written = array.feed(b'data: {"a":1}\n\ndata: {"b"') + array.feed(b":2}\n\n") + array.close()
    assert msgspec.json.decode(written) == [{"a": 1}, {"b": 2}]


def test_a_single_prompt_of_ollama_is_a_chat_and_its_reply_a_response() -> None:
    server = DIALECTS["ollama"].server
    body = server.chat_request({"model": "m", "prompt": "Hi", "system": "Be brief.", "options": {"seed": 1}})
    assert body == {
        "model": "m",
        "options": {"seed": 1},
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }
    lines = present(server.reframe("generate", {}, stream=True))
    written = lines.feed(b'{"message":{"role":"assistant","content":"Hey"},"done":false}\n') + lines.close()
    assert msgspec.json.decode(written) == {"done": False, "response": "Hey"}
    with pytest.raises(TranscriptError, match="suffix"):
        server.chat_request({"model": "m", "prompt": "a", "suffix": "b"})

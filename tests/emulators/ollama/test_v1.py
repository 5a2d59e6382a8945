"""The OpenAI-like half: what it refuses and what it answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from emulators.ollama.requests import MODEL, TOOL, user
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_facts import facts_for
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.ollama.v1 import complaints, translated
from segue.emulators.rules import Context

CALLS = Reply(pieces=(Think("Two lookups."), Call("get_weather", {"city": "Paris"}), Call("now")))
WORDS = Reply(pieces=(Think("Simple."), Say("Paris is warm.")), chunk_size=6)
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def chat(*messages: Any, model: str = MODEL, **extra: Any) -> dict[str, Any]:
    return {"model": model, "messages": list(messages or (user(),)), **extra}


def calling(arguments: Any, name: str = "get_weather") -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def refusals(body: dict[str, Any]) -> list[tuple[str, int, str]]:
    context = Context(model=body["model"], facts=facts_for("ollama", body["model"]))
    return [(refusal.rule, refusal.status, refusal.message) for refusal in complaints(body, context)]


def post(body: object, *replies: Reply) -> EmulatorResponse:
    app = App(Emulator(responder=ScriptedResponder(replies)))
    return ask_now(app, "POST", "/ollama/v1/chat/completions", json=body)


def chunks(answer: EmulatorResponse) -> list[dict[str, Any]]:
    frames = answer.body.decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    return [msgspec.json.decode(frame.removeprefix("data: ")) for frame in frames[:-2]]


@pytest.mark.rule("OLL-30")
@pytest.mark.parametrize("arguments", ["", "{bad", "[]", "3", None])
def test_arguments_are_the_text_of_an_object(arguments: Any) -> None:
    body = chat(user(), calling(arguments), {"role": "tool", "tool_call_id": "call_1", "content": "18C"})
    assert refusals(body) == [("OLL-30", 400, "invalid tool call arguments")]


@pytest.mark.rule("OLL-31")
@pytest.mark.parametrize(
    ("content", "shown"),
    [(None, "<nil>"), ({"type": "text"}, "map[string]interface {}"), (3, "float64"), (True, "bool")],
)
def test_content_is_text_or_parts(content: Any, shown: str) -> None:
    assert refusals(chat(user(content))) == [("OLL-31", 400, f"invalid message content type: {shown}")]


@pytest.mark.rule("OLL-31")
def test_a_message_with_calls_needs_no_content() -> None:
    assert refusals(chat(user(), {**calling("{}"), "content": None})) == []


@pytest.mark.rule("OLL-32")
@pytest.mark.parametrize("part", ["text", {"type": "file", "file": {}}, {"type": "text"}, {}])
def test_parts_are_text_images_or_sound(part: Any) -> None:
    assert refusals(chat(user([part]))) == [("OLL-32", 400, "invalid message format")]


@pytest.mark.rule("OLL-32")
def test_every_part_becomes_a_message_and_a_result_loses_its_name() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    body = chat(user(), calling("{}"), {"role": "tool", "tool_call_id": "call_1", "content": parts})
    results = translated(body)["messages"][2:]
    assert results == [{"role": "tool", "content": "a"}, {"role": "tool", "content": "b"}]


@pytest.mark.rule("OLL-33")
@pytest.mark.parametrize(
    ("url", "text"),
    [
        (
            "https://example.com/a.png",
            "image URLs are not currently supported, please use base64 encoded data instead",
        ),
        ("data:image/gif;base64,AAAA", "invalid image input"),
        ("data:image/png;base64,!", "invalid image input"),
    ],
)
def test_images_are_inline_and_of_known_kinds(url: str, text: str) -> None:
    body = chat(user([{"type": "image_url", "image_url": {"url": url}}]))
    assert refusals(body) == [("OLL-33", 400, text)]
    assert refusals(chat(user([{"type": "image_url", "image_url": {"url": PIXEL}}]))) == []


@pytest.mark.rule("OLL-34")
def test_a_result_gets_the_name_of_the_last_call_with_its_id() -> None:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "18C"}
    body = chat(user(), calling("{}", "first"), result, calling("{}", "second"), result)
    assert translated(body)["messages"][-1]["tool_name"] == "second"
    named = chat(user(), {**result, "name": "given"})
    assert translated(named)["messages"][-1]["tool_name"] == "given"


@pytest.mark.rule("OLL-35")
def test_an_unknown_effort_is_refused() -> None:
    text = (
        'invalid reasoning value: "extreme" (must be "minimal", "low", "medium", "high", "xhigh", "ultra", "max", '
        'or "none")'
    )
    assert refusals(chat(reasoning_effort="extreme")) == [("OLL-35", 400, text)]
    assert refusals(chat(reasoning={"effort": "extreme"})) == [("OLL-35", 400, text)]


@pytest.mark.rule("OLL-35")
def test_what_is_not_read_is_ignored() -> None:
    body = chat({**user(), "reasoning_content": "x"}, tool_choice="must", parallel_tool_calls=3, n="many")
    assert refusals(body) == []


@pytest.mark.rule("OLL-35")
def test_what_is_read_has_its_type() -> None:
    text = (
        "json: cannot unmarshal string into Go struct field ChatCompletionRequest.temperature of type float64"
    )
    assert refusals(chat(temperature="hot")) == [("OLL-35", 400, text)]
    assert refusals({"model": MODEL, "messages": []}) == [("OLL-35", 400, "[] is too short - 'messages'")]


@pytest.mark.rule("OLL-07")
def test_abilities_count_here_too() -> None:
    text = "registry.ollama.ai/library/gemma3:4b does not support tools"
    answer = post(chat(model="gemma3:4b", tools=[TOOL]))
    assert answer.status == 400
    assert answer.json()["error"] == {
        "message": text,
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    assert refusals(chat(model="llama3.2", reasoning_effort="high"))[0][0] == "OLL-08"
    assert refusals(chat(model="llama3.2", reasoning_effort="none")) == []


@pytest.mark.rule("OLL-11")
def test_a_model_that_is_not_there_is_not_found() -> None:
    error = post(chat(model="nonesuch")).json()["error"]
    assert (error["message"], error["type"]) == ("model 'nonesuch' not found", "not_found_error")


@pytest.mark.rule("OLL-36")
def test_a_stream_names_the_role_once_and_reasons_first() -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    *deltas, finish, usage = chunks(post(body, WORDS))
    said = [chunk["choices"][0]["delta"] for chunk in deltas]
    assert [delta.get("role") for delta in said] == ["assistant", None, None, None, None]
    assert "".join(delta.get("reasoning", "") for delta in said) == "Simple."
    assert "".join(delta["content"] for delta in said) == "Paris is warm."
    assert (finish["choices"][0]["delta"], finish["choices"][0]["finish_reason"]) == ({}, "stop")
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 6
    assert {chunk["system_fingerprint"] for chunk in deltas} == {"fp_ollama"}


@pytest.mark.rule("OLL-36")
def test_streamed_calls_are_whole() -> None:
    *deltas, finish = chunks(post(chat(stream=True, tools=[TOOL]), CALLS))
    calls = [made for chunk in deltas for made in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [made["index"] for made in calls] == [0, 1]
    assert calls[0]["function"] == {"name": "get_weather", "arguments": '{"city":"Paris"}'}
    assert finish["choices"][0]["finish_reason"] == "tool_calls"


def test_what_the_emulator_says_can_be_sent_back_to_it() -> None:
    app = App(Emulator(responder=ScriptedResponder([CALLS])))
    first = ask_now(app, "POST", "/ollama/v1/chat/completions", json=chat(tools=[TOOL])).json()
    message = first["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": made["id"], "content": "18C"} for made in message["tool_calls"]
    ]
    again = chat(user(), message, *results)
    assert ask_now(app, "POST", "/ollama/v1/chat/completions", json=again).status == 200


@pytest.mark.rule("OLL-37")
def test_an_error_in_the_stream_is_lost() -> None:
    app = App(Emulator(responder=ScriptedResponder([WORDS])))
    app.emulator.faults.append(Fault(kind="error_mid_stream", status=500))
    answer = ask_now(app, "POST", "/ollama/v1/chat/completions", json=chat(stream=True))
    assert b"[DONE]" not in answer.body
    last = msgspec.json.decode(answer.body.decode().strip().split("\n\n")[-1].removeprefix("data: "))
    assert last["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert last["choices"][0]["finish_reason"] is None


@pytest.mark.rule("OLL-19")
def test_trouble_has_openai_s_envelope_here() -> None:
    app = App()
    app.emulator.faults.append(Fault(status=503))
    error = ask_now(app, "POST", "/ollama/v1/chat/completions", json=chat()).json()["error"]
    assert error["type"] == "api_error"


def test_models_and_embeddings_look_like_openai_s() -> None:
    app = App()
    models = ask_now(app, "GET", "/ollama/v1/models").json()["data"]
    assert {model["owned_by"] for model in models} == {"library"}
    assert ask_now(app, "GET", "/ollama/v1/models/qwen3:8b").json()["id"] == "qwen3:8b"
    assert ask_now(app, "GET", "/ollama/v1/models/nonesuch").status == 404
    body = {"model": "nomic-embed-text", "input": ["a"], "encoding_format": "float"}
    data = ask_now(app, "POST", "/ollama/v1/embeddings", json=body).json()["data"]
    assert len(data[0]["embedding"]) == 768
    nothing = ask_now(app, "POST", "/ollama/v1/embeddings", json={**body, "input": []})
    assert (nothing.status, nothing.json()["error"]["message"]) == (400, "invalid input")

"""Answers of the DeepSeek emulator as a client sees them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder

CALLS = Reply(pieces=(Think("Two lookups."), Call("get_weather", {"city": "Paris"}), Call("now")))
WORDS = Reply(pieces=(Think("Simple."), Say("Paris is warm.")), chunk_size=6)
USER = {"role": "user", "content": "Weather in Paris?"}


def chat(**extra: Any) -> dict[str, Any]:
    return {"model": "deepseek-v4-flash", "messages": [USER], **extra}


def post(body: object, *replies: Reply, path: str = "/chat/completions") -> EmulatorResponse:
    app = App(Emulator(responder=ScriptedResponder(replies)))
    return ask_now(app, "POST", f"/deepseek{path}", json=body)


def chunks(answer: EmulatorResponse) -> list[dict[str, Any]]:
    frames = answer.body.decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    return [msgspec.json.decode(frame.removeprefix("data: ")) for frame in frames[:-2]]


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/chat/completions", "/beta/chat/completions"])
def test_every_documented_prefix_answers(path: str) -> None:
    assert post(chat(), path=path).status == 200


def test_reasoning_stands_beside_the_text_and_is_counted() -> None:
    body = post(chat(), WORDS).json()
    message = body["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Paris is warm.", "Simple.")
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2
    assert body["usage"]["prompt_cache_miss_tokens"] == body["usage"]["prompt_tokens"]


def test_an_alias_is_answered_by_the_model_behind_it_without_thinking() -> None:
    body = post(chat(model="deepseek-chat"), WORDS).json()
    assert body["model"] == "deepseek-v4-flash"
    assert "reasoning_content" not in body["choices"][0]["message"]


def test_a_stream_thinks_first_and_counts_in_its_last_chunk() -> None:
    first, *middle, last = chunks(post(chat(stream=True), WORDS))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None, "reasoning_content": ""}
    thoughts = [chunk["choices"][0]["delta"]["reasoning_content"] for chunk in middle]
    assert thoughts == ["Simple", ".", None, None, None]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"]["total_tokens"] > 0
    assert {chunk["usage"] for chunk in [first, *middle]} == {None}


def test_what_the_emulator_says_can_be_sent_back_to_it() -> None:
    app = App(Emulator(responder=ScriptedResponder([CALLS])))
    message = ask_now(app, "POST", "/deepseek/chat/completions", json=chat()).json()["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": made["id"], "content": "18C"} for made in message["tool_calls"]
    ]
    again = chat(messages=[USER, message, *results])
    assert ask_now(app, "POST", "/deepseek/chat/completions", json=again).status == 200


def test_streamed_calls_have_the_same_ids_as_whole_ones() -> None:
    made = [
        part
        for chunk in chunks(post(chat(stream=True), CALLS))
        for part in chunk["choices"][0]["delta"].get("tool_calls", ())
    ]
    whole = post(chat(), CALLS).json()["choices"][0]["message"]["tool_calls"]
    assert [part["id"] for part in made if "id" in part] == [one["id"] for one in whole]
    assert whole[0]["id"].startswith("call_00_")


def test_plain_text_comes_back_from_the_older_parser() -> None:
    answer = post(chat(messages=[{"role": "user", "content": {}}]))
    assert (answer.status, answer.headers["content-type"]) == (422, "text/plain; charset=utf-8")
    assert answer.body.startswith(b"Failed to deserialize the JSON body into the target type: messages[0]: ")


def test_models_are_listed() -> None:
    models = ask_now(App(), "GET", "/deepseek/models").json()
    assert [model["id"] for model in models["data"]] == ["deepseek-v4-flash", "deepseek-v4-pro"]


@pytest.mark.rule("DSK-00")
def test_a_wrong_key_is_shown_by_its_end() -> None:
    app = App(Emulator(keys=["right"]))
    headers = {"authorization": "Bearer sk-wrong-key"}
    answer = ask_now(app, "POST", "/deepseek/chat/completions", json=chat(), headers=headers)
    assert answer.status == 401
    assert answer.json()["error"] == {
        "message": "Authentication Fails, Your api key: ****-key is invalid",
        "type": "authentication_error",
        "param": None,
        "code": "invalid_request_error",
    }


@pytest.mark.rule("DSK-00")
@pytest.mark.parametrize("status", [402, 429, 500, 503])
def test_trouble_has_an_envelope(status: int) -> None:
    app = App()
    app.emulator.faults.append(Fault(status=status))
    answer = ask_now(app, "POST", "/deepseek/chat/completions", json=chat())
    assert answer.status == status
    assert answer.json()["error"]["message"]

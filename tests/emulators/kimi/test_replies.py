"""Answers of the Kimi emulator as a client sees them."""

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
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
USER = {"role": "user", "content": "Weather in Paris and Rome?"}


def history() -> list[dict[str, Any]]:
    function = {"name": "get_weather", "arguments": '{"city":"Paris"}'}
    calls = [{"id": f"functions.get_weather:{n}", "type": "function", "function": function} for n in range(2)]
    return [
        {"role": "system", "content": "You are a weather assistant."},
        USER,
        {
            "role": "assistant",
            "content": "Checking both cities.",
            "reasoning_content": "I need two lookups.",
            "tool_calls": calls,
        },
        *[
            {"role": "tool", "tool_call_id": made["id"], "name": "get_weather", "content": "18C"}
            for made in calls
        ],
        {"role": "assistant", "content": "Paris 18C.", "reasoning_content": "Summarise."},
        {"role": "user", "content": "Thanks. And Oslo?"},
    ]


def chat(**extra: Any) -> dict[str, Any]:
    return {"model": "kimi-k2.6", "messages": [USER], "tools": [TOOL], **extra}


def post(body: object, *replies: Reply) -> EmulatorResponse:
    app = App(Emulator(responder=ScriptedResponder(replies)))
    return ask_now(app, "POST", "/kimi/v1/chat/completions", json=body)


def chunks(answer: EmulatorResponse) -> list[dict[str, Any]]:
    frames = answer.body.decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    return [msgspec.json.decode(frame.removeprefix("data: ")) for frame in frames[:-2]]


def test_the_rulebook_s_transcript_is_accepted() -> None:
    body = chat(
        messages=history(),
        tool_choice="auto",
        thinking={"type": "enabled"},
        max_completion_tokens=1024,
        stream=True,
        stream_options={"include_usage": True},
    )
    assert post(body).status == 200


@pytest.mark.rule("KIM-02")
@pytest.mark.rule("KIM-01")
def test_ids_count_on_over_the_whole_conversation() -> None:
    message = post(chat(messages=history()), CALLS).json()["choices"][0]["message"]
    assert [made["id"] for made in message["tool_calls"]] == ["get_weather:2", "now:3"]
    assert message["reasoning_content"] == "Two lookups."


def test_a_model_that_does_not_think_shows_no_reasoning() -> None:
    body = post(chat(model="moonshot-v1-128k"), WORDS).json()
    assert "reasoning_content" not in body["choices"][0]["message"]
    assert post(chat(thinking={"type": "disabled"}), WORDS).json()["choices"][0]["message"]["content"]


@pytest.mark.rule("KIM-19")
def test_reasoning_streams_before_content_and_usage_sits_in_the_last_choice() -> None:
    answer = post(chat(stream=True), WORDS)
    first, *middle, last = chunks(answer)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    keys = [key for chunk in middle for key in chunk["choices"][0]["delta"]]
    assert keys == ["reasoning_content"] * 2 + ["content"] * 3
    (choice,) = last["choices"]
    assert (choice["delta"], choice["finish_reason"]) == ({}, "stop")
    assert choice["usage"]["cached_tokens"] == 0
    assert "usage" not in last
    assert answer.headers["x-trace-id"]


@pytest.mark.rule("KIM-19")
def test_who_asks_for_usage_gets_it_once_more_on_its_own() -> None:
    *_, last = chunks(post(chat(stream=True, stream_options={"include_usage": True}), WORDS))
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] > 0


@pytest.mark.rule("KIM-19")
def test_calls_stream_in_fragments() -> None:
    made = [
        part
        for chunk in chunks(post(chat(stream=True), CALLS))
        for part in chunk["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert [part["id"] for part in made if "id" in part] == ["get_weather:0", "now:1"]
    arguments = "".join(part["function"]["arguments"] for part in made if part["index"] == 0)
    assert msgspec.json.decode(arguments) == {"city": "Paris"}


@pytest.mark.rule("KIM-20")
@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_answer_says_why_it_ended(finish: Any) -> None:
    body = post(chat(), Reply(pieces=(Say("so"),), finish=finish)).json()
    assert body["choices"][0]["finish_reason"] == finish


@pytest.mark.rule("KIM-22")
def test_tokens_are_estimated_before_they_are_paid_for() -> None:
    app = App()
    body = chat(messages=history())
    estimate = ask_now(app, "POST", "/kimi/v1/tokenizers/estimate-token-count", json=body).json()
    answered = ask_now(app, "POST", "/kimi/v1/chat/completions", json=body).json()
    assert estimate == {"data": {"total_tokens": answered["usage"]["prompt_tokens"]}}


@pytest.mark.rule("KIM-22")
def test_models_are_listed() -> None:
    models = ask_now(App(), "GET", "/kimi/v1/models").json()["data"]
    assert "kimi-k3" in [model["id"] for model in models]


def test_refusals_have_a_message_and_a_type_only() -> None:
    answer = post(chat(messages=[{"role": "tool", "tool_call_id": "x:0", "content": ""}]))
    assert answer.status == 400
    assert answer.json() == {
        "error": {"message": "tool_call_id x:0 is not found", "type": "invalid_request_error"}
    }


@pytest.mark.rule("KIM-21")
@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "rate_limit_reached_error"), (503, "engine_overloaded_error"), (500, "server_error")],
)
def test_trouble_has_moonshot_s_words(status: int, kind: str) -> None:
    app = App()
    app.emulator.faults.append(Fault(status=status, retry_after=2))
    answer = ask_now(app, "POST", "/kimi/v1/chat/completions", json=chat())
    assert (answer.status, answer.headers["retry-after"]) == (status, "2")
    assert answer.json()["error"]["type"] == kind


@pytest.mark.rule("KIM-00")
def test_without_the_right_key_nothing_is_said() -> None:
    app = App(Emulator(keys=["right"]))
    answer = ask_now(app, "POST", "/kimi/v1/chat/completions", json=chat())
    assert (answer.status, answer.json()["error"]["type"]) == (401, "invalid_authentication_error")


def test_what_is_no_json_is_refused() -> None:
    assert ask_now(App(), "POST", "/kimi/v1/chat/completions", body=b"{").status == 400

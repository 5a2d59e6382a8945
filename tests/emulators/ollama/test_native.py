"""Answers of the native API as a client sees them."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from emulators.ollama.requests import MODEL, TOOL, chat, user
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder

CALLS = Reply(pieces=(Think("Two lookups."), Call("get_weather", {"city": "Paris"}), Call("now")))
WORDS = Reply(pieces=(Think("Simple."), Say("Paris is warm.")), chunk_size=6)


def serve(*replies: Reply) -> App:
    return App(Emulator(responder=ScriptedResponder(replies), clock=lambda: 1_790_000_000.0))


def post(body: object, *replies: Reply) -> EmulatorResponse:
    return ask_now(serve(*replies), "POST", "/ollama/api/chat", json=body)


def lines(answer: EmulatorResponse) -> list[dict[str, Any]]:
    assert answer.body.endswith(b"\n")
    return [msgspec.json.decode(line) for line in answer.body.splitlines()]


def test_the_rulebook_s_transcript_is_accepted() -> None:
    calls = [
        {
            "id": f"call_a1b2c3d{n}",
            "function": {"index": n, "name": "get_weather", "arguments": {"city": city}},
        }
        for n, city in enumerate(("Paris", "Rome"))
    ]
    said = {"role": "assistant", "content": "Checking.", "thinking": "Two lookups.", "tool_calls": calls}
    results = [
        {"role": "tool", "tool_name": "get_weather", "tool_call_id": made["id"], "content": "18C"}
        for made in calls
    ]
    body = chat(
        {"role": "system", "content": "You are a weather assistant."},
        user(),
        said,
        *results,
        {"role": "assistant", "content": "Paris 18C."},
        user("And Oslo?"),
        tools=[TOOL],
        think=True,
        truncate=False,
        keep_alive="10m",
        options={"num_ctx": 32_768, "num_predict": 1024},
    )
    assert post(body).status == 200


@pytest.mark.rule("OLL-20")
def test_an_answer_is_streamed_unless_asked_otherwise() -> None:
    answer = post(chat(), WORDS)
    assert answer.headers["content-type"] == "application/x-ndjson"
    *before, last = lines(answer)
    assert [line["message"].get("thinking") for line in before] == ["Simple", ".", None, None, None]
    assert "".join(line["message"]["content"] for line in before) == "Paris is warm."
    assert not any(line["done"] for line in before)
    assert last["done"] is True
    assert set(last) >= {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"}
    assert (last["prompt_eval_count"] > 0, last["eval_count"]) == (True, 6)


@pytest.mark.rule("OLL-21")
@pytest.mark.rule("OLL-05")
@pytest.mark.rule("OLL-22")
def test_calls_come_whole_one_a_line_and_end_with_stop() -> None:
    *before, last = lines(post(chat(tools=[TOOL]), CALLS))
    calls = [made for line in before for made in line["message"].get("tool_calls", ())]
    assert [made["function"]["index"] for made in calls] == [0, 1]
    assert calls[0]["function"]["arguments"] == {"city": "Paris"}
    assert all(re.fullmatch(r"call_[a-z0-9]{8}", made["id"]) for made in calls)
    assert (last["message"]["content"], last["done_reason"]) == ("", "stop")


@pytest.mark.rule("OLL-24")
def test_without_streaming_there_is_one_object() -> None:
    body = post(chat(tools=[TOOL], stream=False), CALLS).json()
    assert (body["done"], len(body["message"]["tool_calls"])) == (True, 2)
    assert body["message"]["thinking"] == "Two lookups."


@pytest.mark.rule("OLL-08")
def test_thinking_is_on_until_it_is_switched_off_where_that_is_possible() -> None:
    def thoughts(**extra: Any) -> str | None:
        thought: str | None = post(chat(stream=False, **extra), WORDS).json()["message"].get("thinking")
        return thought

    assert thoughts() == "Simple."
    assert thoughts(think=False) is None
    assert thoughts(think=False, model="gpt-oss:20b") == "Simple."
    assert thoughts(model="llama3.2") is None


@pytest.mark.rule("OLL-22")
def test_a_short_answer_says_that_it_was_cut() -> None:
    body = post(chat(stream=False, options={"num_predict": 2}), Reply(pieces=(Say("word " * 9),))).json()
    assert (body["done_reason"], body["eval_count"]) == ("length", 2)


@pytest.mark.rule("OLL-15")
@pytest.mark.rule("OLL-16")
def test_a_long_prompt_is_silently_shortened() -> None:
    turns = [user("word" * 1_500), {"role": "assistant", "content": "word" * 1_500}, user("word" * 1_500)]
    fitted = post(chat(*turns, stream=False), WORDS).json()["prompt_eval_count"]
    assert fitted == 2 * 1_504
    halved = post(chat(user("word" * 9_000), stream=False), WORDS).json()["prompt_eval_count"]
    assert halved == 4096 // 2
    whole = post(chat(*turns, stream=False, options={"num_ctx": 8_192}), WORDS).json()["prompt_eval_count"]
    assert whole == 3 * 1_504


@pytest.mark.rule("OLL-09")
def test_some_models_forget_what_was_thought_aloud_before_the_last_question() -> None:
    def counted(model: str) -> int:
        aloud = {"role": "assistant", "content": "<think>" + "hm " * 400 + "</think>So."}
        body = chat(user(), aloud, user("And Rome?"), model=model, stream=False)
        tokens: int = post(body, WORDS).json()["prompt_eval_count"]
        return tokens

    assert counted("qwen3:8b") < 50
    assert counted("llama3.2") > 300


@pytest.mark.rule("OLL-12")
@pytest.mark.rule("OLL-13")
def test_a_request_without_messages_loads_and_unloads() -> None:
    app = serve()
    loaded = ask_now(app, "POST", "/ollama/api/chat", json={"model": MODEL}).json()
    assert (loaded["done_reason"], loaded["message"]["content"]) == ("load", "")
    (running,) = ask_now(app, "GET", "/ollama/api/ps").json()["models"]
    assert (running["name"], running["context_length"]) == (MODEL, 4096)
    assert running["expires_at"].startswith("2026-09-21T14:18:20")
    unloaded = ask_now(app, "POST", "/ollama/api/chat", json={"model": MODEL, "keep_alive": 0}).json()
    assert unloaded["done_reason"] == "unload"
    assert ask_now(app, "GET", "/ollama/api/ps").json() == {"models": []}


@pytest.mark.rule("OLL-11")
def test_a_model_that_is_not_there_is_not_found() -> None:
    answer = post(chat(model="nonexistent-model:latest"))
    assert (answer.status, answer.json()) == (404, {"error": "model 'nonexistent-model:latest' not found"})


@pytest.mark.rule("OLL-11")
@pytest.mark.parametrize(("body", "text"), [(b"", "missing request body"), (b"{", "unexpected EOF")])
def test_a_body_is_json(body: bytes, text: str) -> None:
    answer = ask_now(serve(), "POST", "/ollama/api/chat", body=body)
    assert (answer.status, answer.json()) == (400, {"error": text})


@pytest.mark.rule("OLL-19")
def test_a_busy_server_says_so_with_two_spaces() -> None:
    app = serve()
    app.emulator.faults.append(Fault(status=503))
    answer = ask_now(app, "POST", "/ollama/api/chat", json=chat())
    text = "server busy, please try again.  maximum pending requests exceeded"
    assert (answer.status, answer.json()) == (503, {"error": text})


@pytest.mark.rule("OLL-23")
def test_an_error_in_the_stream_is_its_last_line() -> None:
    app = serve(WORDS)
    app.emulator.faults.append(Fault(kind="error_mid_stream", status=500, message="out of memory"))
    answer = ask_now(app, "POST", "/ollama/api/chat", json=chat())
    assert answer.status == 200
    last = lines(answer)[-1]
    assert last == {"error": "an error was encountered while running the model: out of memory"}

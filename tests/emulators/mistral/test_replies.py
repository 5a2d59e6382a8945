"""Answers of the Mistral emulator as a client sees them."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from emulators.mistral.requests import TOOL, assistant, call, chat, system, tool, user
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder

CALLS = Reply(
    pieces=(
        Think("Two lookups."),
        Call("get_weather", {"city": "Paris"}),
        Call("get_weather", {"city": "Rome"}),
    )
)
WORDS = Reply(pieces=(Think("Simple."), Say("Paris is warm.")), chunk_size=6)
NINE = re.compile(r"[a-zA-Z0-9]{9}")


def post(body: object, *replies: Reply, path: str = "/v1/chat/completions") -> EmulatorResponse:
    app = App(Emulator(responder=ScriptedResponder(replies)))
    return ask_now(app, "POST", f"/mistral{path}", json=body)


def chunks(answer: EmulatorResponse) -> list[dict[str, Any]]:
    frames = answer.body.decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    return [msgspec.json.decode(frame.removeprefix("data: ")) for frame in frames[:-2]]


def deltas(answer: EmulatorResponse) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks(answer)]


def test_the_rulebook_s_transcript_is_accepted() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "I need two lookups."}]}
    said = {"type": "text", "text": "Checking both cities."}
    body = chat(
        system(),
        user(),
        assistant([thought, said], call("aB3dE5f7G"), call("hI9jK1m3N")),
        tool("aB3dE5f7G", name="get_weather"),
        tool("hI9jK1m3N", name="get_weather", content="ERROR: timeout after 5s"),
        assistant("Paris 18C; Rome lookup timed out."),
        user("Thanks. And Oslo?"),
        tools=[TOOL],
        tool_choice="auto",
        parallel_tool_calls=True,
        max_tokens=1024,
    )
    assert post(body).status == 200


def test_a_whole_answer_has_calls_with_short_ids_and_counts_tokens() -> None:
    body = post(chat(user(), tools=[TOOL]), CALLS).json()
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    first, second = choice["message"]["tool_calls"]
    assert NINE.fullmatch(first["id"])
    assert first["id"] != second["id"]
    assert msgspec.json.decode(first["function"]["arguments"]) == {"city": "Paris"}
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


@pytest.mark.rule("MIS-22")
def test_only_a_thinking_model_shows_thoughts() -> None:
    body = chat(user(), model="magistral-medium-latest")
    content = post(body, WORDS).json()["choices"][0]["message"]["content"]
    assert [chunk["type"] for chunk in content] == ["thinking", "text"]
    assert post(chat(user()), WORDS).json()["choices"][0]["message"]["content"] == "Paris is warm."


@pytest.mark.rule("MIS-20")
@pytest.mark.rule("MIS-23")
def test_a_stream_starts_with_the_role_and_ends_with_usage() -> None:
    answer = post(chat(user(), stream=True), WORDS)
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, *middle, last = chunks(answer)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in middle) == "Paris is warm."
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"]["completion_tokens"] > 0
    assert all("usage" not in chunk for chunk in [first, *middle])


@pytest.mark.rule("MIS-22")
def test_streamed_thoughts_are_chunks_and_so_is_the_text_after_them() -> None:
    body = chat(user(), stream=True, model="magistral-medium-latest")
    kinds = [part["type"] for delta in deltas(post(body, WORDS))[1:-1] for part in delta["content"]]
    assert kinds == ["thinking"] * 2 + ["text"] * 3


@pytest.mark.rule("MIS-21")
def test_a_native_model_streams_calls_whole_with_the_finish_reason() -> None:
    *_, last = chunks(post(chat(user(), tools=[TOOL], stream=True), CALLS))
    (choice,) = last["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert [set(made) for made in choice["delta"]["tool_calls"]] == [{"id", "function"}] * 2
    assert last["usage"]


@pytest.mark.rule("MIS-21")
def test_the_newest_model_numbers_its_calls() -> None:
    body = chat(user(), tools=[TOOL], stream=True, model="mistral-small-latest")
    made = deltas(post(body, CALLS))[-1]["tool_calls"]
    assert [(one["index"], one["type"]) for one in made] == [(0, "function"), (1, "function")]


@pytest.mark.rule("MIS-22")
def test_the_newest_model_mixes_thoughts_and_text_in_one_delta() -> None:
    body = chat(user(), stream=True, model="mistral-small-latest", reasoning_effort="high")
    said = [delta["content"] for delta in deltas(post(body, WORDS))[1:-1]]
    assert [part["type"] for content in said[:2] for part in content] == ["thinking", "thinking", "text"]
    assert all(part.get("closed", True) for part in said[1])
    assert said[2:] == ["is war", "m."]


@pytest.mark.rule("MIS-21")
def test_a_guest_model_streams_calls_in_fragments() -> None:
    body = chat(user(), tools=[TOOL], stream=True, model="zai-glm-5-2")
    fragments = [made for delta in deltas(post(body, CALLS)) for made in delta.get("tool_calls", ())]
    opening = [made for made in fragments if "id" in made]
    assert [made["index"] for made in opening] == [0, 1]
    assert opening[0]["id"].startswith("chatcmpl-tool-")
    rest = [made for made in fragments if "id" not in made and made["index"] == 0]
    assert {made["function"]["name"] for made in rest} == {""}
    assert msgspec.json.decode("".join(made["function"]["arguments"] for made in rest)) == {"city": "Paris"}


@pytest.mark.rule("MIS-23")
def test_an_answer_that_is_cut_off_says_so() -> None:
    body = post(chat(user(), max_tokens=2), Reply(pieces=(Say("word " * 20),))).json()
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 2


def test_what_the_emulator_says_can_be_sent_back_to_it() -> None:
    app = App(Emulator(responder=ScriptedResponder([CALLS])))
    history = [user()]
    body = chat(*history, tools=[TOOL], model="magistral-medium-latest")
    message = ask_now(app, "POST", "/mistral/v1/chat/completions", json=body).json()["choices"][0]["message"]
    results = [tool(made["id"]) for made in message["tool_calls"]]
    again = {**body, "messages": [*history, message, *results]}
    assert ask_now(app, "POST", "/mistral/v1/chat/completions", json=again).status == 200


def test_a_prefix_seen_before_counts_as_cached() -> None:
    app = App()
    body = chat(system("be kind " * 50), user())
    first, second = (ask_now(app, "POST", "/mistral/v1/chat/completions", json=body).json() for _ in range(2))
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 50


def test_what_was_not_said_before_does_not_count_as_cached() -> None:
    app = App()
    history = [message for _ in range(20) for message in (user("?"), assistant("!"))]
    usages = [
        ask_now(app, "POST", "/mistral/v1/chat/completions", json=chat(*said)).json()["usage"]
        for said in ([*history, user("?")], [*history, user("?"), assistant("!"), user("new " * 100)])
    ]
    told, cached = usages[1]["prompt_tokens"], usages[1]["prompt_tokens_details"]["cached_tokens"]
    assert 0 < cached < told


@pytest.mark.rule("MIS-18")
def test_models_tell_what_they_can_do() -> None:
    models = ask_now(App(), "GET", "/mistral/v1/models").json()
    by_id = {model["id"]: model for model in models["data"]}
    assert by_id["magistral-medium-latest"]["capabilities"]["reasoning"] is True
    assert by_id["mistral-embed"]["capabilities"]["completion_chat"] is False
    assert by_id["mistral-medium-latest"]["max_context_length"] == 262_144


@pytest.mark.rule("MIS-17")
def test_embeddings_have_the_size_of_their_model() -> None:
    body = post({"model": "mistral-embed", "input": ["a", "b"]}, path="/v1/embeddings").json()
    assert [len(entry["embedding"]) for entry in body["data"]] == [1024, 1024]


@pytest.mark.rule("MIS-00")
def test_without_a_key_nothing_is_said() -> None:
    app = App(Emulator(keys=["right"]))
    for key, detail in (({}, "Unauthorized"), ({"authorization": "Bearer wrong"}, "Invalid API Key")):
        answer = ask_now(app, "POST", "/mistral/v1/chat/completions", json=chat(user()), headers=key)
        assert (answer.status, answer.json()) == (401, {"detail": detail})


@pytest.mark.rule("MIS-19")
@pytest.mark.parametrize(
    ("status", "kind", "code"), [(429, "rate_limited", "1300"), (529, "internal_server_error", "1000")]
)
def test_trouble_has_mistral_s_words(status: int, kind: str, code: str) -> None:
    app = App()
    app.emulator.faults.append(Fault(status=status, retry_after=2))
    answer = ask_now(app, "POST", "/mistral/v1/chat/completions", json=chat(user()))
    assert (answer.status, answer.headers["retry-after"]) == (status, "2")
    assert (answer.json()["object"], answer.json()["type"], answer.json()["code"]) == ("error", kind, code)

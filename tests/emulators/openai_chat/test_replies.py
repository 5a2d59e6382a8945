from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.emulators.model.model_facts import count_tokens
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.openai_chat.profile import Profile
from segue.emulators.openai_chat.replies import stream, whole
from segue.emulators.rules import Context

CONTEXT = Context(model="gpt-4.1", reply_id="r1")
REQUEST: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Weather?"}]}
CALLS = Reply(pieces=(Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"})))


def chunks(reply: Reply, request: dict[str, Any] = REQUEST, **options: Any) -> list[dict[str, Any]]:
    data = b"".join(stream(reply, request, CONTEXT, **options)).decode()
    frames = data.split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    return [msgspec.json.decode(frame.removeprefix("data: ")) for frame in frames[:-2]]


def deltas(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in found for choice in chunk["choices"]]


@pytest.mark.rule("CHAT-60", "CHAT-61", "CHAT-62")
def test_parallel_calls_stream_as_in_the_rulebook() -> None:
    found = chunks(CALLS)
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in found)
    first, *rest, last = deltas(found)
    assert first == {"role": "assistant", "content": None, "refusal": None}
    assert last == {}
    assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"
    fragments = [delta["tool_calls"][0] for delta in rest]
    named = [fragment for fragment in fragments if "id" in fragment]
    assert [fragment["index"] for fragment in named] == [0, 1]
    assert all(fragment["function"] == {"name": "get_weather", "arguments": ""} for fragment in named)
    for index, arguments in enumerate(['{"city":"Paris"}', '{"city":"Rome"}']):
        told = [f["function"]["arguments"] for f in fragments if f["index"] == index]
        assert "".join(told) == arguments


@pytest.mark.rule("CHAT-63")
def test_usage_comes_in_a_last_chunk_without_choices_when_asked_for() -> None:
    asked = {**REQUEST, "stream": True, "stream_options": {"include_usage": True}}
    *others, last = chunks(Reply(pieces=(Say("Hi"),)), asked)
    assert all(chunk["usage"] is None for chunk in others)
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], count_tokens("Hi"))
    assert all("usage" not in chunk for chunk in chunks(Reply(pieces=(Say("Hi"),))))


@pytest.mark.rule("CHAT-65")
def test_usage_is_counted_from_the_text() -> None:
    reply = Reply(pieces=(Think("Let me think about it."), Say("It rains.")))
    usage = whole(reply, REQUEST, CONTEXT)["usage"]
    assert usage["completion_tokens"] == count_tokens("Let me think about it.") + count_tokens("It rains.")
    assert usage["completion_tokens_details"]["reasoning_tokens"] == count_tokens("Let me think about it.")
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.rule("OAI-01")
def test_cached_tokens_start_at_1024_and_come_in_steps() -> None:
    long = {**REQUEST, "messages": [{"role": "user", "content": "x" * 8000}]}

    def cached(tokens: int) -> int:
        context = Context(model="gpt-4.1", cached_tokens=tokens)
        found: int = whole(CALLS, long, context)["usage"]["prompt_tokens_details"]["cached_tokens"]
        return found

    assert [cached(1000), cached(1024), cached(1300)] == [0, 1024, 1280]


@pytest.mark.rule("CHAT-62")
def test_a_reply_that_does_not_fit_is_broken_off() -> None:
    reply = whole(Reply(pieces=(Say("x" * 400),)), {**REQUEST, "max_completion_tokens": 10}, CONTEXT)
    choice = reply["choices"][0]
    assert (choice["finish_reason"], len(choice["message"]["content"])) == ("length", 40)
    assert reply["usage"]["completion_tokens"] == 10


def test_a_whole_reply_and_a_stream_say_the_same_ids() -> None:
    calls = whole(CALLS, REQUEST, CONTEXT)["choices"][0]["message"]["tool_calls"]
    streamed = [
        d["tool_calls"][0]["id"] for d in deltas(chunks(CALLS)) if "id" in d.get("tool_calls", [{}])[0]
    ]
    assert [call["id"] for call in calls] == streamed
    assert len(set(streamed)) == 2


def test_a_refusal_is_not_content() -> None:
    reply = Reply(pieces=(Say("I cannot."),), finish="refusal")
    message = whole(reply, REQUEST, CONTEXT)["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (None, "I cannot.")


@pytest.mark.rule("CHAT-50")
def test_openai_hides_its_reasoning_and_a_compatible_server_shows_it() -> None:
    reply = Reply(pieces=(Think("Hm."), Say("Hi")))
    assert "reasoning_content" not in whole(reply, REQUEST, CONTEXT)["choices"][0]["message"]
    shown = whole(reply, REQUEST, CONTEXT, Profile(reasoning_fields=True))
    assert shown["choices"][0]["message"]["reasoning_content"] == "Hm."
    told = deltas(chunks(reply, profile=Profile(reasoning_fields=True)))
    assert {"reasoning_content": "Hm."} in told

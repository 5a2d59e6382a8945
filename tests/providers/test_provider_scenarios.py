from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from segue.conversation.blocks import Origin
from segue.conversation.events import fold
from segue.conversation.tools import ToolSpec
from segue.dialects.registry import DIALECTS
from segue.dialects.replies.whole_reply import decoder_for
from segue.emulators.model.model_reply import Call, Reply, Say
from segue.emulators.server import Served
from strategies.provider_places import PLACES, WEATHER, Place, asking, provider_at, say

every_place = pytest.mark.parametrize("place", PLACES, ids=str)
OPENAI, RESPONSES, ANTHROPIC, GEMINI, MISTRAL, KIMI, DEEPSEEK, OLLAMA, BEDROCK = PLACES


@pytest.mark.requirement("Scenario: Pass tools to OpenAI API", "Scenario: Parse OpenAI tool calls")
def test_tools_go_to_openai_and_its_calls_come_back(segue_emulator_server: Served) -> None:
    cities = (Call("get_weather", {"city": "Rome"}), Call("get_weather", {"city": "Oslo"}))
    say(segue_emulator_server, Reply(pieces=(Say("Let me see."), *cities)), Reply(pieces=cities[:1]))
    provider = provider_at(segue_emulator_server, OPENAI)
    whole = asyncio.run(provider.generate_chat(asking(OPENAI, tools=(WEATHER,))))
    body = segue_emulator_server.emulator.log[-1].body
    function = {"name": WEATHER.name, "description": WEATHER.description, "parameters": WEATHER.parameters}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == "auto"
    assert whole["content"] == "Let me see."
    assert whole["finish_reason"] == "tool_calls"
    assert whole["usage"]["prompt_tokens"] > 0 and whole["usage"]["completion_tokens"] > 0
    assert whole["usage"]["total_tokens"] == (
        whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"]
    )
    assert [call["type"] for call in whole["tool_calls"]] == ["function", "function"]
    assert len({call["id"] for call in whole["tool_calls"]}) == 2
    assert all(call["id"].startswith("call_") for call in whole["tool_calls"])
    assert [call["function"] for call in whole["tool_calls"]] == [
        {"name": "get_weather", "arguments": '{"city":"Rome"}'},
        {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
    ]
    silent = asyncio.run(provider.generate_chat(asking(OPENAI, tools=(WEATHER,))))
    assert (silent["content"], len(silent["tool_calls"])) == (None, 1)


@pytest.mark.requirement("Scenario: OpenAI without tools")
def test_without_tools_openai_hears_of_none(segue_emulator_server: Served) -> None:
    asyncio.run(provider_at(segue_emulator_server, OPENAI).generate_chat(asking(OPENAI)))
    assert not {"tools", "tool_choice"} & set(segue_emulator_server.emulator.log[-1].body)


@pytest.mark.requirement("Scenario: Pass tools to Ollama API", "Scenario: Parse Ollama tool calls")
def test_tools_go_to_ollama_and_its_calls_come_back(segue_emulator_server: Served) -> None:
    say(segue_emulator_server, Reply(pieces=(Say("Let me see."), Call("get_weather", {"city": "Rome"}))))
    provider = provider_at(segue_emulator_server, OLLAMA)
    whole = asyncio.run(provider.generate_chat(asking(OLLAMA, tools=(WEATHER,))))
    (offered,) = segue_emulator_server.emulator.log[-1].body["tools"]
    assert offered["type"] == "function"
    assert offered["function"]["name"] == "get_weather"
    assert whole["finish_reason"] == "tool_calls"
    assert whole["content"] == "Let me see."
    (call,) = whole["tool_calls"]
    assert msgspec.json.decode(call["function"]["arguments"]) == {"city": "Rome"}


@pytest.mark.requirement("Scenario: Ollama finish_reason detection")
@pytest.mark.parametrize(("finish", "reason"), [("auto", "stop"), ("length", "length")])
def test_ollama_says_why_it_ended(segue_emulator_server: Served, finish: Any, reason: str) -> None:
    say(segue_emulator_server, Reply(pieces=(Say("That is all"),), finish=finish))
    whole = asyncio.run(provider_at(segue_emulator_server, OLLAMA).generate_chat(asking(OLLAMA)))
    assert whole["finish_reason"] == reason


@pytest.mark.requirement("Scenario: Ollama finish_reason detection")
@pytest.mark.parametrize(
    ("kind", "body", "ended"),
    [
        ("application/json", b'{"message":{"content":"a"},"done":false}', ("length", "a")),
        ("application/json; charset=utf-8", b'\n{"message":{"content":"a"},"done":false}\n', ("length", "a")),
        ("application/x-ndjson", b'{"message":{"content":"a"},"done":false}\n', ("error", "a")),
        (
            "application/json",
            b'{"message":{"content":"a"},"done":false}\n{"message":{"content":"b"}}',
            ("error", "ab"),
        ),
        (
            "application/json",
            b'{"message":{"content":"a"}}\n{"message":{"content":"b"},"done":true}',
            ("stop", "ab"),
        ),
    ],
)
def test_a_whole_reply_that_is_not_done_hit_a_limit_and_a_stream_was_cut(
    kind: str, body: bytes, ended: tuple[str, str]
) -> None:
    for size in (len(body), 7):
        decoder = decoder_for(DIALECTS["ollama"], {"content-type": kind})
        portions = [body[start : start + size] for start in range(0, len(body), size)]
        events = [event for portion in portions for event in decoder.feed(portion)] + decoder.close()
        reply = fold(events, Origin())
        assert (reply.finish, reply.message.text) == ended


@pytest.mark.requirement(
    "Scenario: Convert tools to Gemini format",
    "Scenario: Pass tools to Gemini API",
    "Scenario: Detect Gemini function calls",
    "Scenario: Convert Gemini function calls to OpenAI format",
)
def test_tools_go_to_gemini_and_its_calls_come_back_in_openais_form(segue_emulator_server: Served) -> None:
    say(segue_emulator_server, Reply(pieces=(Call("get_weather", {"city": "Rome"}),)))
    provider = provider_at(segue_emulator_server, GEMINI)
    tools = (WEATHER, ToolSpec("now", "The time."))
    whole = asyncio.run(provider.generate_chat(asking(GEMINI, tools=tools)))
    (entry,) = segue_emulator_server.emulator.log[-1].body["tools"]
    assert [one["name"] for one in entry["functionDeclarations"]] == ["get_weather", "now"]
    assert whole["finish_reason"] == "tool_calls"
    (call,) = whole["tool_calls"]
    assert call["type"] == "function" and call["id"]
    assert msgspec.json.decode(call["function"]["arguments"]) == {"city": "Rome"}


@pytest.mark.requirement("Scenario: Convert Gemini function calls to OpenAI format")
def test_calls_that_came_without_ids_are_numbered(segue_emulator_server: Served) -> None:
    old = Place("gemini", "/v1beta", "gemini-2.5-flash")
    say(
        segue_emulator_server,
        Reply(pieces=(Call("get_weather", {"city": "A"}), Call("get_weather", {"city": "B"}))),
    )
    provider = provider_at(segue_emulator_server, old)
    whole = asyncio.run(provider.generate_chat(asking(old, tools=(WEATHER,))))
    assert [call["id"] for call in whole["tool_calls"]] == ["call_0", "call_1"]


@pytest.mark.requirement("Scenario: Gemini without function calls")
def test_gemini_without_calls_says_text_and_stops(segue_emulator_server: Served) -> None:
    say(segue_emulator_server, Reply(pieces=(Say("Just text."),)))
    whole = asyncio.run(provider_at(segue_emulator_server, GEMINI).generate_chat(asking(GEMINI)))
    assert (whole["content"], whole["finish_reason"]) == ("Just text.", "stop")
    assert "tool_calls" not in whole

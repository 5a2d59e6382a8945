"""Histories of a client, sent on to the provider of its own wire: what that would refuse is planned, not tried first."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.clients import AGENTS, Agent
from gateway.world import ROUTES, GatewayWorld

OWN = {wire: {"openai_chat": "chat", "openai_responses": "responses"}.get(wire, wire) for wire in AGENTS}
"""A model of each wire's own provider."""
SHAPES = [
    "uu",
    "umu",
    "umm",
    "ummu",
    "ucru",
    "umcr",
    "umcru",
    "ucrm",
    "ucrmu",
    "ucrmmu",
    "ucruu",
    "mu",
    "mcr",
    "cr",
    "ummcr",
    "ucrmcr",
    "ucrcr",
    "um",
    "uum",
    "ucrum",
    "umucr",
    "ucr",
    "umcrm",
    "ucrucr",
]
"""Who writes: u the user, m the model, c the model with a call, r the call's result."""


def add(agent: Agent, kind: str, number: int) -> None:
    city = {"city": "Rome"}
    call_id = {
        "gemini": f"id{number}",
        "anthropic": f"toolu_{number}",
        "openai_responses": f"call_{number}",
    }.get(agent.wire, f"abcdefg{number:02}")
    match kind, agent.wire:
        case "u", _:
            agent.add_user(f"User {number}.")
        case "r", _:
            agent.add_results([(call_id, "weather", "rain")])
        case "m", "gemini":
            agent.history.append({"role": "model", "parts": [{"text": f"Model {number}."}]})
        case "m", "converse":
            agent.history.append({"role": "assistant", "content": [{"text": f"Model {number}."}]})
        case "m", _:
            agent.history.append({"role": "assistant", "content": f"Model {number}."})
        case _, wire:
            agent.history.append(called(wire, call_id, city))


def called(wire: str, call_id: str, city: dict[str, str]) -> Any:
    match wire:
        case "gemini":
            call = {"name": "weather", "args": city, "id": call_id}
            return {"role": "model", "parts": [{"functionCall": call}]}
        case "anthropic":
            used = {"type": "tool_use", "id": call_id, "name": "weather", "input": city}
            return {"role": "assistant", "content": [used]}
        case "converse":
            used = {"toolUse": {"toolUseId": call_id, "name": "weather", "input": city}}
            return {"role": "assistant", "content": [used]}
        case "openai_responses":
            return {
                "type": "function_call",
                "call_id": call_id,
                "name": "weather",
                "arguments": json.dumps(city),
            }
        case "ollama":
            made: dict[str, Any] = {"function": {"name": "weather", "arguments": city}}
        case _:
            function = {"name": "weather", "arguments": json.dumps(city)}
            made = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [made]}


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_history_is_refused_by_the_provider_of_its_own_wire(wire: str, shape: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES[OWN[wire]])
        number = 0
        for kind in shape:
            number += kind != "r"
            add(agent, kind, number)
        reply = await agent.send()
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []

    asyncio.run(main())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("model", ROUTES)
def test_a_client_that_begins_the_reply_itself_is_never_refused(
    wire: str, model: str, *, stream: bool
) -> None:
    """Its next request has two messages of the model in a row, the second with the calls."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES[model], stream=stream)
        agent.add_user("Please look.")
        add(agent, "m", 1)
        for _ in range(3):
            reply = await agent.send()
            assert reply.status == 200, reply.body
            calls = agent.add_reply(agent.whole(reply))
            if not calls:
                break
            agent.add_results([(one, name, "rain") for one, name, _ in calls])
        assert not calls
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []

    asyncio.run(main())


@pytest.mark.parametrize("model", ROUTES)
@pytest.mark.parametrize(
    "empty",
    [
        {"tool_calls": []},
        {"content": []},
        {"reasoning_content": ""},
        {"reasoning_content": None},
        {"reasoning": "", "reasoning_details": []},
    ],
)
def test_empty_fields_that_other_servers_take_are_not_sent_on(model: str, empty: dict[str, Any]) -> None:
    """Clients that were written for DeepSeek or vLLM send them in every message; OpenAI refuses them."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["openai_chat"](world, ROUTES[model])
        agent.history = [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hello!", **empty},
            {"role": "user", "content": "Please look."},
            {**called("openai_chat", "abcdefg01", {"city": "Rome"}), **empty, "content": ""},
            {"role": "tool", "tool_call_id": "abcdefg01", "content": "rain"},
        ]
        if "tool_calls" in empty:
            del agent.history[2:]
            agent.add_user("Go on.")
        reply = await agent.send()
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []
        kind = "field_corrected" if "tool_calls" in empty else "blank_text"
        assert kind in reply.headers["x-segue-repairs"]
        assert kind not in reply.headers.get("x-segue-losses", "")

    asyncio.run(main())


def test_an_item_that_is_sent_twice_is_not_refused() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["openai_responses"](world, ROUTES["responses"])
        said = [{"type": "output_text", "text": "Hello!", "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": said}
        agent.history = [
            {"role": "user", "content": "Hello."},
            item,
            item,
            {"role": "user", "content": "And?"},
        ]
        reply = await agent.send()
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []
        assert reply.headers["x-segue-repairs"] == "id_replaced=1"

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
def test_parallel_calls_in_messages_of_their_own_are_not_refused(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES[OWN[wire]])
        for kind, number in (("u", 1), ("c", 2), ("c", 3), ("r", 2), ("r", 3)):
            add(agent, kind, number)
        reply = await agent.send()
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []

    asyncio.run(main())


RESPONSE = {"functionResponse": {"name": "weather", "response": {"output": "rain"}}}


@pytest.mark.parametrize("call_id", [{}, {"id": "one"}])
@pytest.mark.parametrize("result_id", [{}, {"id": "one"}, {"id": "other"}])
@pytest.mark.parametrize("before", [[], [{"text": "Here it is."}]])
@pytest.mark.parametrize("behind", [[], [{"text": "Go on."}]])
def test_a_gemini_content_with_text_around_its_results_is_not_refused(
    call_id: Any, result_id: Any, before: list[Any], behind: list[Any]
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["gemini"](world, ROUTES["gemini"])
        agent.add_user("Please look.")
        call = {"name": "weather", "args": {"city": "Rome"}, **call_id}
        agent.history.append({"role": "model", "parts": [{"functionCall": call}]})
        result = {"functionResponse": {**RESPONSE["functionResponse"], **result_id}}
        agent.history.append({"role": "user", "parts": [*before, result, *behind]})
        reply = await agent.send()
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []
        sent = json.dumps(world.emulator.log[-1].body)
        assert all(part["text"] in sent for part in (*before, *behind))

    asyncio.run(main())


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize(
    "model", [*ROUTES.values(), "gemini/gemini-2.5-flash", "anthropic/claude-3-5-haiku-latest"]
)
@pytest.mark.parametrize(
    "field",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        {"tools": []},
        {"tool_choice": "required"},
        {"temperature": 2},
    ],
)
def test_settings_of_a_chat_client_are_refused_by_no_provider(model: str, field: dict[str, Any]) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["openai_chat"](world, model)
        agent.add_user("Please look.")
        reply = await world.ask(agent.path(model), {**agent.body(model), **field})
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_cannot_be_held_to_a_schema_reads_it(stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
        message = {"role": "user", "content": "Where is it warm?"}
        for model, reads in (
            ("anthropic/claude-3-5-haiku-latest", True),
            (ROUTES["anthropic"], False),
            (ROUTES["chat"], False),
        ):
            body = {"model": model, "messages": [message], "stream": stream, "response_format": asked}
            reply = await world.ask("/v1/chat/completions", body)
            assert reply.status == 200, reply.body
            sent = json.dumps(world.emulator.log[-1].body)
            assert ("follows this schema" in sent) is reads, model
            assert ("option_not_sent" in reply.headers.get("x-segue-repairs", "")) is reads, model
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []

    asyncio.run(main())


@pytest.mark.parametrize("model", ROUTES)
def test_a_mistral_prefix_may_stay_in_the_history(model: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["mistral"](world, ROUTES[model])
        agent.add_user("Hello.")
        agent.history.append({"role": "assistant", "content": "Well,", "prefix": True})
        for _ in range(2):
            reply = await agent.send()
            assert reply.status == 200, reply.body
            agent.add_reply(agent.whole(reply))
            agent.add_user("Go on.")
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []

    asyncio.run(main())


@pytest.mark.parametrize("content", [{}, {"content": ""}, {"content": []}])
def test_an_error_without_content_is_not_refused(content: dict[str, Any]) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, ROUTES["anthropic"])
        agent.add_user("Please look.")
        agent.history.append(called("anthropic", "toolu_1", {"city": "Rome"}))
        failed = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, **content}
        agent.history.append({"role": "user", "content": [failed]})
        reply = await agent.send()
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []

    asyncio.run(main())


def test_stream_options_are_not_sent_to_mistral() -> None:
    """Clients that were written for OpenAI send them in every request; Mistral reports usage unasked."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["mistral"](world, ROUTES["mistral"])
        agent.add_user("Hello.")
        model = ROUTES["mistral"]
        body = {**agent.body(model), "stream": True, "stream_options": {"include_usage": True}}
        reply = await world.ask(agent.path(model), body, headers=agent.headers)
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []
        assert reply.headers["x-segue-repairs"] == "hints_dropped=1"
        assert b'"usage"' in reply.body

    asyncio.run(main())


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-6", "anthropic/claude-opus-5-5"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_system_note_in_mid_history_is_sent_as_the_model_takes_it(model: str, at: int) -> None:
    """Newer models of Claude take it behind a message of the user, older ones nowhere."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, model)
        agent.history = [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hello!"},
            {"role": "user", "content": "Please look."},
        ]
        agent.history.insert(at, {"role": "system", "content": "Be brief."})
        body = {**agent.body(model), "thinking": {"type": "adaptive"}}
        reply = await world.ask(agent.path(model), body, headers=agent.headers)
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []
        sent = world.emulator.log[-1].body
        in_place = model.endswith("claude-opus-5-5") and at != 2
        assert (sent["messages"][at]["role"] == "system") == in_place
        assert "Be brief." in json.dumps(sent)

    asyncio.run(main())


NOTES: list[Any] = ["Be brief.", [{"type": "text", "text": "Be brief."}]]


@pytest.mark.parametrize("system", [None, "Be kind.", [{"type": "text", "text": "Be kind."}]])
@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-6", "anthropic/claude-opus-5-5"])
def test_a_system_note_before_all_messages_is_sent_as_system_prompt(
    model: str, note: Any, system: Any
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, model)
        agent.history = [{"role": "system", "content": note}, {"role": "user", "content": "Hello."}]
        body = {**agent.body(model), **({"system": system} if system else {})}
        reply = await world.ask(agent.path(model), body, headers=agent.headers)
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []
        sent = world.emulator.log[-1].body
        assert [message["role"] for message in sent["messages"]] == ["user"]
        assert [part["text"] for part in sent["system"]] == [*(["Be kind."] if system else []), "Be brief."]
        assert "speaker_corrected=1" in reply.headers["x-segue-repairs"]

    asyncio.run(main())


SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


@pytest.mark.parametrize(
    ("marks", "kept"),
    [
        ([SHORT] * 3, {0, 1, 2}),
        ([SHORT] * 6, {2, 3, 4, 5}),
        ([SHORT, LONG, SHORT], {1, 2}),
        ([LONG, SHORT, LONG, SHORT, SHORT, SHORT], {2, 3, 4, 5}),
    ],
)
def test_of_too_many_cache_marks_the_last_are_sent(marks: list[Any], kept: set[int]) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, ROUTES["anthropic"])
        for mark in marks:
            agent.history.append(
                {"role": "user", "content": [{"type": "text", "text": "Hello.", "cache_control": mark}]}
            )
            agent.history.append({"role": "assistant", "content": "Hello!"})
        agent.add_user("And?")
        reply = await agent.send()
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []
        sent = world.emulator.log[-1].body["messages"][:-1:2]
        assert {place for place, message in enumerate(sent) if "cache_control" in str(message)} == kept
        dropped = len(marks) - len(kept)
        reported = reply.headers.get("x-segue-repairs", "")
        assert f"hints_dropped={dropped}" in reported if dropped else not reported

    asyncio.run(main())


@pytest.mark.parametrize("words", [1, 20_000])
def test_cache_marks_of_tools_and_system_count_too(words: int) -> None:
    """Of a long request the tools are kept, to be found by their bytes in the next ones."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, ROUTES["anthropic"])
        said = [{"type": "text", "text": "Hello. " * words, "cache_control": SHORT}] * 2
        agent.history.append({"role": "user", "content": said})
        body = agent.body(ROUTES["anthropic"])
        body["system"] = [{"type": "text", "text": "Be brief.", "cache_control": SHORT}] * 2
        body["tools"] = [{**tool, "cache_control": SHORT} for tool in body["tools"]]
        body["tools"][0]["description"] = "It is a tool. " * words
        reply = await world.ask(agent.path(agent.home), body, headers=agent.headers)
        assert reply.status == 200, reply.body
        assert [(entry.rule, entry.body) for entry in world.refusals()] == []
        sent = world.emulator.log[-1].body
        assert "cache_control" not in str(sent["tools"])
        assert (str(sent["system"]) + str(sent["messages"])).count("cache_control") == 4

    asyncio.run(main())


def test_cache_marks_that_a_client_adds_with_each_turn_are_never_too_many() -> None:
    """The history is long enough to be read on from its known beginning."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, ROUTES["anthropic"])
        for _ in range(8):
            said = {"type": "text", "text": "Hello. " * 2000, "cache_control": SHORT}
            agent.history.append({"role": "user", "content": [said]})
            reply = await agent.send()
            assert reply.status == 200, reply.body
            agent.add_reply(agent.whole(reply))
        assert [(entry.rule, entry.message) for entry in world.refusals()] == []
        assert str(world.emulator.log[-1].body).count("cache_control") == 4

    asyncio.run(main())

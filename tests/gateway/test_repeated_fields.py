"""What replies repeat of their requests: whichever model answers, as much as the wire's own server repeats."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from gateway.clients import SCHEMA
from gateway.world import ROUTES, GatewayResponse, GatewayWorld

PATH, INTERACTIONS = "/v1/responses", "/v1/interactions"
OWN, OTHER = ROUTES["responses"], ROUTES["anthropic"]
PLAIN: dict[str, Any] = {"input": "Hello."}
FULL: dict[str, Any] = {
    "input": "Hello.",
    "instructions": "Be brief.",
    "max_output_tokens": 900,
    "max_tool_calls": 3,
    "metadata": {"ticket": "17"},
    "parallel_tool_calls": False,
    "prompt_cache_key": "bob",
    "reasoning": {"effort": "low", "summary": "auto"},
    "safety_identifier": "ann",
    "temperature": 1,
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "tool_choice": "none",
    "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}],
    "top_p": 1,
    "truncation": "auto",
    "user": "ann",
}
LONG: dict[str, Any] = {
    **FULL,
    "tools": [{**FULL["tools"][0], "name": f"weather_{number}"} for number in range(200)],
}
"""Long enough for its tools to be kept."""
OF_THE_REPLY = {"id", "created_at", "completed_at", "model", "output", "usage", "conversation"}
"""What differs from reply to reply. Conversations have tests of their own."""
OF_THE_MODEL = {"frequency_penalty", "presence_penalty", "service_tier", "top_logprobs"}
"""What OpenAI says of its models, whatever the request says."""
DEFAULTS = {"temperature", "top_p", "text"}
"""What OpenAI shows where the request says nothing, and nobody knows of another model."""


def shown_in(reply: GatewayResponse) -> list[Any]:
    """Each response object of a reply, whole or streamed."""
    assert reply.status == 200, reply.body
    if not reply.body.startswith(b"event: "):
        return [reply.json()]
    lines = [line for line in reply.body.splitlines() if line.startswith(b"data: {")]
    events = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    return [
        event.get("response", event.get("interaction"))
        for event in events
        if event.keys() & {"response", "interaction"}
    ]


def repeated(response: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    left_out = OF_THE_REPLY | OF_THE_MODEL | (DEFAULTS - request.keys()) | {"status"}
    return {name: value for name, value in response.items() if name not in left_out}


async def fetched(world: GatewayWorld, path: str, name: str) -> Any:
    reply = await world.ask(f"{path}/{name}", method="GET")
    assert reply.status == 200, reply.body
    return reply.json()


@pytest.mark.parametrize("fields", [PLAIN, FULL, LONG])
@pytest.mark.parametrize("stream", [False, True])
def test_a_translated_reply_repeats_what_the_wires_own_server_does(fields: Any, *, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        own = await world.ask(PATH, {**fields, "model": OWN, "stream": stream})
        other = await world.ask(PATH, {**fields, "model": OTHER, "stream": stream})
        assert [report.forwarded for report in world.reports] == [True, False]
        expected, got = shown_in(own), shown_in(other)
        assert len(got) == (3 if stream else 1)
        assert [repeated(one, fields) for one in got] == [repeated(one, fields) for one in expected]
        stored = await fetched(world, PATH, got[-1]["id"])
        assert stored == got[-1]

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_names_the_one_that_it_continues(*, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        first = shown_in(await world.ask(PATH, {**PLAIN, "model": OTHER}))[-1]
        assert (first["store"], first["previous_response_id"]) == (True, None)
        body = {**PLAIN, "model": OTHER, "previous_response_id": first["id"], "stream": stream}
        for shown in shown_in(await world.ask(PATH, body)):
            assert shown["previous_response_id"] == first["id"]
            last = shown["id"]
        assert (await fetched(world, PATH, last))["previous_response_id"] == first["id"]

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_is_not_stored_says_so(*, stream: bool) -> None:
    async def main() -> None:
        body = {**PLAIN, "model": OTHER, "store": False, "stream": stream}
        assert {shown["store"] for shown in shown_in(await GatewayWorld().ask(PATH, body))} == {False}

    asyncio.run(main())


@pytest.mark.parametrize("name", ["metadata", "reasoning", "text", "tool_choice", "user"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_nests_too_deep_to_be_written_in_a_reply_is_not_repeated(name: str, *, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = json.dumps({**PLAIN, "model": OTHER, "stream": stream})
        refused = []
        # How deep a request can be read depends on how deep the interpreter is already.
        for depth in (200, *range(860, 1000, 4)):
            deep = '{"a":' * depth + "1" + "}" * depth
            reply = await world.ask(PATH, f'{body[:-1]}, "{name}": {deep}}}'.encode())
            refused.append(reply.status == 400)
            if refused[-1]:
                continue
            shown = shown_in(reply)[-1]
            assert shown["status"] == "completed"
            assert '{"a": {"a": ' not in json.dumps(shown)
            assert (await fetched(world, PATH, shown["id"])) == shown
        assert refused == sorted(refused)
        assert {*refused} == {False, True}

    asyncio.run(main())


def test_a_reply_in_the_background_repeats_its_request_from_the_beginning() -> None:
    async def main() -> None:
        world = GatewayWorld()
        first = shown_in(await world.ask(PATH, {**PLAIN, "model": OTHER}))[-1]
        body = {**FULL, "model": OTHER, "background": True, "previous_response_id": first["id"]}
        queued = (await world.ask(PATH, body)).json()
        await world.gateway.close()
        done = await fetched(world, PATH, queued["id"])
        assert (queued["status"], done["status"]) == ("queued", "completed")
        for shown in (queued, done):
            assert shown["previous_response_id"] == first["id"]
            assert {name: shown[name] for name in FULL if name != "input"} == {
                name: value for name, value in FULL.items() if name != "input"
            }

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_an_interaction_names_the_one_that_it_continues(*, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        first = shown_in(await world.ask(INTERACTIONS, {**PLAIN, "model": OTHER}))[-1]
        assert "previous_interaction_id" not in first
        body = {**PLAIN, "model": OTHER, "previous_interaction_id": first["id"], "stream": stream}
        for shown in shown_in(await world.ask(INTERACTIONS, body)):
            assert shown["previous_interaction_id"] == first["id"]
            last = shown["id"]
        assert (await fetched(world, INTERACTIONS, last))["previous_interaction_id"] == first["id"]

    asyncio.run(main())


@pytest.mark.parametrize("route", [OWN, OTHER])
def test_what_many_replies_repeat_at_length_is_stored_once(route: str) -> None:
    """Tools of a coding agent would else take more of the store at each turn than all that is said."""

    async def stored(world: GatewayWorld) -> int:
        size: int = await world.store._file.read(
            lambda connection: connection.execute("SELECT sum(size) FROM records").fetchone()[0]
        )
        return size

    async def main() -> None:
        world = GatewayWorld()
        length = len(msgspec.json.encode(LONG["tools"]))
        first = await world.ask(PATH, {**LONG, "model": route})
        before = await stored(world)
        assert length < before < 2 * length
        body = {**LONG, "model": route, "previous_response_id": first.json()["id"]}
        second = await world.ask(PATH, body)
        assert await stored(world) - before < length / 4
        for reply in (first, second):
            assert await fetched(world, PATH, reply.json()["id"]) == reply.json()

    asyncio.run(main())

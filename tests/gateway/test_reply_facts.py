"""What a reply says of itself: when it was made, how long it took, and what was read before its first word."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from typing import Any

import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld
from segue.emulators.faults import Fault

_DATES = {
    "openai_chat": "created",
    "openai_responses": "created_at",
    "mistral": "created",
    "ollama": "created_at",
}


def _objects(body: bytes) -> list[dict[str, Any]]:
    """Whatever is JSON in a body: all of it, its events, or its lines."""
    lines = [
        line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith((b"data: {", b"{"))
    ]
    found = [json.loads(line) for line in lines]
    return [one.get("response", one) for one in found]


def _seconds(date: Any) -> float:
    return datetime.fromisoformat(date).timestamp() if isinstance(date, str) else float(date)


@pytest.mark.parametrize("wire", _DATES)
@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_is_dated_with_the_moment_it_was_made(wire: str, *, stream: bool) -> None:
    async def main() -> None:
        began = time.time()
        agent = AGENTS[wire](GatewayWorld(), ROUTES["anthropic"], stream=stream)
        agent.add_user("Hello.")
        reply = await agent.send()
        assert reply.status == 200, reply.body
        dates = [_seconds(one[_DATES[wire]]) for one in _objects(reply.body) if _DATES[wire] in one]
        assert dates
        assert all(began - 1 <= date <= time.time() for date in dates)

    asyncio.run(main())


@pytest.mark.parametrize("stream", [True, False])
def test_the_last_line_of_an_ollama_reply_has_its_durations(*, stream: bool) -> None:
    async def main() -> None:
        agent = AGENTS["ollama"](GatewayWorld(), ROUTES["anthropic"], stream=stream)
        agent.add_user("Hello.")
        last = _objects((await agent.send()).body)[-1]
        assert last["done"] is True
        assert 0 < last["total_duration"] < 60_000_000_000
        assert last["total_duration"] == last["prompt_eval_duration"] + last["eval_duration"]
        assert last["load_duration"] == 0

    asyncio.run(main())


def test_a_model_that_is_only_loaded_is_dated_too() -> None:
    async def main() -> None:
        reply = await GatewayWorld().ask("/api/chat", {"model": ROUTES["ollama"], "messages": []})
        assert abs(_seconds(reply.json()["created_at"]) - time.time()) < 60

    asyncio.run(main())


@pytest.mark.parametrize("route", ["chat", "responses", "gemini", "mistral", "ollama"])
def test_a_messages_stream_begins_with_an_estimate_of_what_was_read(route: str) -> None:
    async def main() -> None:
        agent = AGENTS["anthropic"](GatewayWorld(), ROUTES[route], stream=True)
        agent.add_user("Tell me about the weather. " * 100)
        events = _objects((await agent.send()).body)
        start = next(one for one in events if one["type"] == "message_start")
        assert 400 < start["message"]["usage"]["input_tokens"] < 1200
        last = next(one for one in events if one["type"] == "message_delta")
        assert last["usage"]["input_tokens"] > 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("wire", "wanted"),
    [
        ("openai_chat", {"n": 3}),
        ("mistral", {"n": 3}),
        ("gemini", {"generationConfig": {"candidateCount": 3}}),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_several_replies_to_one_request_are_refused_where_only_one_can_be_given(
    wire: str, wanted: dict[str, Any], *, stream: bool
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES["anthropic"], stream=stream)
        agent.add_user("Hello.")
        body = {**agent.body(agent.model), **wanted}
        reply = await world.ask(agent.path(agent.model), body, headers=agent.headers)
        assert reply.status == 400
        assert b"3, and this model gives one reply" in reply.body
        single = {**agent.body(agent.model), **json.loads(json.dumps(wanted).replace("3", "1"))}
        assert (await world.ask(agent.path(agent.model), single, headers=agent.headers)).status == 200

    asyncio.run(main())


def test_several_replies_of_the_own_provider_come_through() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["openai_chat"](world, ROUTES["chat"])
        agent.add_user("Hello.")
        reply = await world.ask(agent.path(agent.model), {**agent.body(agent.model), "n": 2})
        assert reply.status == 200
        assert world.reports[-1].forwarded

    asyncio.run(main())


def test_an_error_in_the_midst_of_a_mistral_stream_is_a_chunk_that_its_sdk_reads() -> None:
    models = pytest.importorskip("mistralai.client.models", reason="the SDK is not installed")

    async def main() -> None:
        world = GatewayWorld()
        for route, at_byte in ((ROUTES["anthropic"], 850), (ROUTES["mistral"], 400)):
            world.emulator.faults.append(Fault(kind="error_mid_stream", at_byte=at_byte))
            agent = AGENTS["mistral"](world, route, stream=True)
            agent.add_user("Hello.")
            reply = await agent.send()
            frames = [line[6:] for line in reply.body.splitlines() if line.startswith(b"data: {")]
            chunks = [models.CompletionChunk.model_validate_json(frame) for frame in frames]
            assert chunks[-1].choices[0].finish_reason == "error"
            assert json.loads(frames[-1])["object"] == "error"
            assert json.loads(frames[-1])["message"]

    asyncio.run(main())

"""Requests that our reader cannot read: a provider of their own wire gets them as they came, another wire a clear error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from gateway.clients import AGENTS
from gateway.test_histories_at_home import OWN
from gateway.upstream import AnyRequestApp
from gateway.world import ROUTES, GatewayWorld, providers_at
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from segue.gateway.app import Gateway

WIRES = {
    "/openai/v1/chat": "openai_chat",
    "/openai/v1/responses": "openai_responses",
    "/anthropic": "anthropic",
    "/gemini": "gemini",
    "/mistral": "mistral",
    "/ollama": "ollama",
    "/kimi": "kimi",
    "/bedrock": "converse",
}
NEW: dict[str, list[Any]] = {
    "openai_responses": [
        {"type": "message", "role": "referee", "content": "?"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": 7}]},
        {"role": "user", "content": [{"kind": "newer than we are"}]},
    ],
    "anthropic": [{"role": "referee", "content": "?"}, {"role": "user", "content": [{"kind": "new"}]}],
    "ollama": [{"role": "user", "content": 7}],
    "converse": [{"role": "referee", "content": [{"text": "?"}]}],
    "gemini": [{"role": "referee", "parts": [{"text": "?"}]}, {"role": "user", "parts": [7]}],
}
CASES = [(wire, item) for wire in AGENTS for item in NEW.get(wire, [{"role": "referee", "content": "?"}])]


def unread_body(wire: str, item: Any, world: GatewayWorld, model: str) -> tuple[str, bytes]:
    agent = AGENTS[wire](world, model)
    agent.add_user("Please look.")
    agent.history.append(item)
    agent.add_user("And now?")
    # Spaces that no serializer of ours would write.
    return agent.path(model), json.dumps(agent.body(model), indent=1).encode()


def fields_of(body: bytes) -> dict[str, bytes]:
    """The outer fields of a request, each with its very bytes."""
    return {name: bytes(raw) for name, raw in msgspec.json.decode(body, type=dict[str, msgspec.Raw]).items()}


@pytest.mark.parametrize(("wire", "item"), CASES)
def test_what_we_cannot_read_is_forwarded_as_it_came(wire: str, item: Any) -> None:
    async def main() -> None:
        world, upstream = GatewayWorld(), AnyRequestApp(WIRES)
        world.gateway = Gateway(world.config, providers_at(upstream), world.gateway.memory)  # type: ignore[arg-type]
        route = ROUTES[OWN[wire]]
        path, body = unread_body(wire, item, world, route)
        with pytest.raises(TranscriptError):
            DIALECTS[wire].decode_request(json.loads(body))
        reply = await world.ask(path, body, headers=AGENTS[wire].headers)
        assert reply.status == 200, reply.body
        assert b"It is done." in reply.body
        (sent,) = upstream.sent
        came, arrived = fields_of(body), fields_of(sent.body)
        if came.pop("model", None) is not None:
            assert arrived.pop("model") == json.dumps(route.partition("/")[2]).encode()
        assert arrived == came

    asyncio.run(main())


@pytest.mark.parametrize(("wire", "item"), CASES)
def test_what_we_cannot_read_is_refused_for_another_wire_with_its_place(wire: str, item: Any) -> None:
    async def main() -> None:
        other = "anthropic" if wire != "anthropic" else "gemini"
        world, upstream = GatewayWorld(), AnyRequestApp(WIRES)
        world.gateway = Gateway(world.config, providers_at(upstream), world.gateway.memory)  # type: ignore[arg-type]
        path, body = unread_body(wire, item, world, ROUTES[other])
        reply = await world.ask(path, body, headers=AGENTS[wire].headers)
        assert 400 <= reply.status < 500
        assert (b"messages.1" if wire == "anthropic" else b"[1]") in reply.body
        assert upstream.sent == []

    asyncio.run(main())


@pytest.mark.parametrize(("wire", "item"), CASES)
def test_a_refusal_of_what_we_cannot_read_reaches_the_client(wire: str, item: Any) -> None:
    """The emulators know neither of these things. Their refusal is the answer, and nothing else is tried."""

    async def main() -> None:
        world = GatewayWorld()
        path, body = unread_body(wire, item, world, ROUTES[OWN[wire]])
        reply = await world.ask(path, body, headers=AGENTS[wire].headers)
        refused = world.refusals()
        assert [entry.status for entry in refused] == [reply.status], reply.body
        with pytest.raises(TranscriptError) as ours:
            DIALECTS[wire].decode_request(json.loads(body))
        assert ours.value.message.encode() not in reply.body.replace(b"\\", b"")

    asyncio.run(main())

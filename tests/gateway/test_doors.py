"""Which wire a client uses where wires share a path: by its headers, by its fields, or by the model that it asks for."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gateway.world import ROUTES, GatewayWorld

if TYPE_CHECKING:
    from types import FrameType

PLAIN = {"messages": [{"role": "user", "content": "Hello."}]}
PICTURE = {
    "type": "image_url",
    "image_url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
}


async def _wire(body: dict[str, Any], agent: str = "", path: str = "/v1/chat/completions") -> str:
    world = GatewayWorld(models={"mistral-large": ROUTES["anthropic"]})
    headers = {"user-agent": agent} if agent else {}
    reply = await world.ask(path, {"model": ROUTES["anthropic"], **PLAIN, **body}, headers=headers)
    assert reply.status == 200, reply.body
    return world.reports[-1].wire


@pytest.mark.parametrize(
    ("body", "agent", "wire"),
    [
        ({}, "", "openai_chat"),
        ({}, "mistral-client-python/3.7.0", "mistral"),
        ({}, "ai-sdk/mistral/3.0.69 runtime/node.js", "mistral"),
        ({"safe_prompt": False}, "python-httpx/0.28.1", "mistral"),
        ({"random_seed": 1}, "", "mistral"),
        ({"messages": [{"role": "user", "content": [PICTURE]}]}, "ai/6.0.326 runtime/node.js", "mistral"),
        ({"messages": [{"role": "user", "content": 'say "safe_prompt": false'}]}, "", "openai_chat"),
        ({"model": "mistral-large"}, "ai/6.0.326 runtime/node.js", "mistral"),
        ({"model": "mistral-large"}, "OpenAI/Python 3.51.0", "openai_chat"),
        ({"model": "mistral-large"}, "AsyncOpenAI/JS 6.1.0", "openai_chat"),
        ({"model": "mistral-large", "safe_prompt": True}, "OpenAI/Python 3.51.0", "openai_chat"),
        ({"model": "mistral-large", "max_completion_tokens": 9}, "python-httpx/0.28.1", "openai_chat"),
        ({"model": ROUTES["mistral"]}, "python-httpx/0.28.1", "openai_chat"),
    ],
)
def test_a_client_is_answered_on_the_wire_that_it_uses(body: dict[str, Any], agent: str, wire: str) -> None:
    assert asyncio.run(_wire(body, agent)) == wire


def test_a_prefix_leaves_no_doubt() -> None:
    async def main() -> None:
        path = "/v1/chat/completions"
        assert await _wire({"safe_prompt": True}, path=f"/openai{path}") == "openai_chat"
        assert await _wire({}, "OpenAI/Python 3.51.0", path=f"/mistral{path}") == "mistral"

    asyncio.run(main())


def test_a_request_that_is_no_json_keeps_the_door_of_its_headers() -> None:
    async def main() -> None:
        world = GatewayWorld()
        reply = await world.ask("/v1/chat/completions", b"{")
        assert reply.status == 400
        assert "error" in reply.json()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("body", "headers", "wire"),
    [
        ({}, {}, "openai_chat"),
        ({}, {"user-agent": "mistral-client-python/3.7.0"}, "mistral"),
        ({"model": "mistral-large"}, {}, "mistral"),
        ({"model": "mistral-large"}, {"user-agent": "OpenAI/Python 3.51.0"}, "openai_chat"),
        ({"max_tokens": 9}, {"anthropic-version": "2023-06-01"}, "anthropic"),
        ({}, {"user-agent": "ollama-python/0.6.3"}, "ollama"),
    ],
)
def test_an_explanation_finds_the_wire_as_the_doors_do(
    body: dict[str, Any], headers: dict[str, str], wire: str
) -> None:
    async def main() -> None:
        world = GatewayWorld(models={"mistral-large": ROUTES["anthropic"]})
        asked = {"model": ROUTES["anthropic"], **PLAIN, **body}
        reply = await world.ask("/segue/v1/explain", asked, headers=headers)
        assert (reply.status, reply.json().get("wire")) == (200, wire)

    asyncio.run(main())


@pytest.mark.parametrize(("size", "beside"), [(100, False), (3 << 20, True)])
def test_a_large_body_is_opened_beside_the_loop(size: int, beside: bool) -> None:
    in_loop: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            in_loop.add(frame.f_code.co_name)

    async def main() -> None:
        world = GatewayWorld(models={"deployed": ROUTES["anthropic"]})
        body = {"messages": [{"role": "user", "content": "x" * size}]}
        sys.setprofile(note)
        try:
            reply = await world.ask("/openai/deployments/deployed/chat/completions", body)
        finally:
            sys.setprofile(None)
        assert reply.status == 200, reply.body

    asyncio.run(main())
    assert ("by_body" in in_loop, "opened" in in_loop) == (not beside, not beside)

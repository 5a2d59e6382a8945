"""Sources of a reply behind the gateway: a client of any wire reads them, and the model that named them gets its reply back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.clients import AGENTS
from gateway.upstream import Receive, Scope, Send, body_in
from gateway.world import ROUTES, GatewayWorld, providers_at
from segue.gateway.app import Gateway
from strategies.cited_replies import ANTHROPIC, TEXT, URL

SIGNATURE = "EqQBCgIYAhIkc2lnbmVk"
_THOUGHT = {"type": "thinking", "thinking": "Let me search.", "signature": SIGNATURE}
STREAMED = ANTHROPIC.stream.replace(b'"index": 0', b'"index": 1').replace(
    b"event: content_block_start",
    b"event: content_block_start\ndata: "
    + json.dumps({"type": "content_block_start", "index": 0, "content_block": _THOUGHT}).encode()
    + b'\n\nevent: content_block_stop\ndata: {"type": "content_block_stop", "index": 0}\n\n'
    + b"event: content_block_start",
    1,
)
"""The cited reply with a signed thought before it."""


class CitingProvider:
    """Answers every request on the Messages wire with that reply, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        self.asked.append(json.loads(await body_in(receive)))
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": STREAMED})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", [wire for wire in AGENTS if wire != "anthropic"])
def test_the_model_gets_its_cited_reply_and_its_seal_back_from_any_client(wire: str, *, stream: bool) -> None:
    async def main() -> None:
        world, upstream = GatewayWorld(), CitingProvider()
        world.gateway = Gateway(world.config, providers_at(upstream), world.gateway.memory)  # type: ignore[arg-type]
        agent = AGENTS[wire](world, ROUTES["anthropic"], stream=stream)
        await agent.turn("What are foxes?")
        shown = agent.replies[0].body.decode("utf-8", "replace")
        assert all(fact in shown for fact in ANTHROPIC.facts)
        await agent.turn("And wolves?")
        reply = upstream.asked[1]["messages"][1]
        assert [block["type"] for block in reply["content"]] == ["thinking", "text"]
        thought, text = reply["content"]
        assert thought["signature"] == SIGNATURE
        assert (text["text"], text["citations"]) == (TEXT, list(ANTHROPIC.natives))

    asyncio.run(main())


def test_a_list_of_sources_does_not_hide_who_wrote_a_reply() -> None:
    async def main() -> None:
        world, upstream = GatewayWorld(), CitingProvider()
        world.gateway = Gateway(world.config, providers_at(upstream), world.gateway.memory)  # type: ignore[arg-type]
        agent = AGENTS["ollama"](world, ROUTES["anthropic"])
        assert "Sources:\n[1] About foxes: " + URL in await agent.turn("What are foxes?")
        assert "Sources:" in json.dumps(agent.history)
        await agent.turn("And wolves?")
        assert "Sources:" not in json.dumps(upstream.asked[1]["messages"])

    asyncio.run(main())

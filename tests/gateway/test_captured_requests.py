"""Requests of real agents and frameworks, as they sent them, through the doors to every provider."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.world import CLOUD_ROUTES, EVERY_ROUTE, GatewayWorld

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "clients"
FILES = sorted(CORPUS.glob("*/*.json"))
EVERY = bool(os.environ.get("SEGUE_ALL_CAPTURED"))
"""All requests to all providers takes a minute; without it each request goes to one provider, a different one each."""
_NOT_SENT = ("content-length", "host", "content-encoding", "transfer-encoding", "connection", "upgrade")
_DOORS = {
    "/deepseek/v1": "/openai/v1",
    "/deepseek": "/openai/v1",
    "/kimi/v1": "/openai/v1",
    "/ollama/v1": "/openai/v1",
}
"""Clients that were captured at another server of the Chat wire."""


def path_of(captured: Any) -> str:
    path = str(captured["path"])
    for there, here in _DOORS.items():
        if path.startswith(there + "/"):
            path = path.replace(there, here, 1)
    return f"{path}?{captured['query']}" if captured["query"] else path


def headers_of(captured: Any) -> dict[str, str]:
    given = {name.lower(): value for name, value in captured["headers"].items()}
    return {name: value for name, value in given.items() if name not in _NOT_SENT}


async def replay(file: Path, route: str) -> None:
    captured = json.loads(file.read_text())
    world = GatewayWorld(model=route)
    reply = await world.ask(path_of(captured), captured["body"], headers=headers_of(captured))
    what = f"{file.parent.name}/{file.name} at {route}"
    if "count_tokens" in captured["path"]:
        assert reply.status in (200, 404), what
        return
    assert reply.status == 200, (what, reply.body[:500], [entry.message for entry in world.refusals()])
    # Seals of another account and fields that only another server knows take a second try, and no more; a cloud that refuses a
    # beta, whose name the corpus does not have, refuses the beta's field, too.
    assert len(world.refusals()) <= (2 if route in CLOUD_ROUTES.values() else 1), what


@pytest.mark.skipif(not FILES, reason="the corpus of captured requests is not here")
@pytest.mark.parametrize("turn", range(len(EVERY_ROUTE) if EVERY else 1))
def test_captured_requests_are_accepted_by_any_provider(turn: int) -> None:
    routes = list(EVERY_ROUTE)

    async def main() -> None:
        for number, file in enumerate(FILES):
            await replay(file, routes[(number + turn) % len(routes)])

    asyncio.run(main())

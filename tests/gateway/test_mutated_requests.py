"""Requests of real clients, broken in all the ways in which histories break, through the doors to every provider."""

from __future__ import annotations

import asyncio
import json
import os
from random import Random
from typing import Any

import pytest

from gateway.clients import AGENTS
from gateway.marked_requests import FIELDS, marked, marks_in, mutated, swapped
from gateway.test_captured_requests import FILES, headers_of, path_of
from gateway.world import ROUTES, GatewayWorld
from laws.real_chats import real_requests
from segue.dialects.registry import DIALECTS
from segue.dialects.server_side.references import references_in

CASES = int(os.environ.get("SEGUE_MUTATED_REQUESTS", "400"))
ENDS = {
    "/messages": "anthropic",
    "/responses": "openai_responses",
    "/completions": "openai_chat",
    "GenerateContent": "gemini",
    "/api/chat": "ollama",
}
"""How the path of each wire's door ends."""
SECOND_TRY = frozenset({"RESP-46", "ANT-55", "ANT-05", "GEM-23"})
"""Seals of another account, and a beta that the corpus has no real name of: known by asking only."""
ARTIFACTS = frozenset({"RESP-52", "RESP-45"})
"""Made by the test alone: a trigger that is no longer the last item, and items of a chat that its provider had stored, sent
as if nothing were."""


class Mutation:
    """One broken request."""

    def __init__(self, random: Random) -> None:
        self.route = random.choice(list(ROUTES.values()))
        if random.random() < 0.6:
            self._of_a_client(random)
        else:
            self._of_a_chat(random)
        field = FIELDS[self.wire]
        given = [item for item in self.body[field] if isinstance(item, dict)]
        self.items = self.body[field] = mutated(random, marked(self.wire, given))

    def _of_a_client(self, random: Random) -> None:
        captured = json.loads(random.choice(CLIENTS).read_text())
        self.path, self.headers, self.body = path_of(captured), headers_of(captured), captured["body"]
        self.wire = wire_of(self.path)
        self.world = GatewayWorld(model=self.route)

    def _of_a_chat(self, random: Random) -> None:
        _, self.wire, field, messages = random.choice(CHATS)
        self.world = GatewayWorld()
        agent = AGENTS[self.wire](self.world, self.route)
        self.path, self.headers = agent.path(self.route), dict(agent.headers)
        self.body = {**agent.body(self.route), field: messages}

    async def check(self) -> None:
        reply = await self.world.ask(self.path, self.body, headers=self.headers)
        refused = {entry.rule for entry in self.world.refusals()}
        what = self.wire, self.route, refused, reply.body[:300], json.dumps(self.items)[:3000]
        if b"has no messages" in reply.body:
            return
        assert refused <= SECOND_TRY | ARTIFACTS, what
        if refused & ARTIFACTS:
            return
        if reply.status == 400 and references_in(self.body, DIALECTS[self.wire].server.references, self.wire):
            assert not self.world.emulator.log, (
                what
            )  # what another provider holds is refused before anybody is asked
            return
        assert reply.status == 200, what
        assert len(self.world.refusals()) <= 1, what
        sent = self.world.emulator.log[-1]
        assert swapped(sent.provider, sent.body) == [], what
        text = json.dumps(sent.body)
        lost = {mark for mark in marks_in(self.items) if mark not in text}
        assert not lost or "x-segue-losses" in reply.headers, (lost, *what)


def wire_of(path: str) -> str:
    return next((wire for end, wire in ENDS.items() if end in path.partition("?")[0]), "")


def _is_chat(captured: Any) -> bool:
    wire = wire_of(captured["path"])
    return (
        bool(wire)
        and "count" not in captured["path"]
        and isinstance(captured["body"].get(FIELDS[wire]), list)
    )


CLIENTS = [file for file in FILES if _is_chat(json.loads(file.read_text()))]
CHATS = real_requests(one_in=3) if CLIENTS else []


@pytest.mark.skipif(not CLIENTS or not CHATS, reason="the corpus of captured requests is not here")
@pytest.mark.parametrize("part", range(4))
def test_no_mutation_of_a_real_request_is_refused_or_loses_a_result(part: int) -> None:
    seed = os.environ.get("SEGUE_MUTATION_SEED", "1")

    async def main() -> None:
        for number in range(CASES // 4):
            mutation = Mutation(Random(f"{seed}.{part}.{number}"))
            if mutation.items:
                await mutation.check()

    asyncio.run(main())

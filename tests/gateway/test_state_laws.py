"""The law of all wires that hold conversations: a provider reads exactly what it would have read had the client sent everything.

Arbitrary conversations, cut into turns at arbitrary places, on every stateful wire, with every provider behind it: forked, gone on with
from an older reply, with another system prompt or tool, with items added or deleted by their endpoints, restarted, served by two
gateways, lost by the provider, dropped from our memory. What cannot be continued is refused in words after which clients send
everything. Its long form: make gateway-laws.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from time import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model_view import read_by_model, wire_of
from gateway.stateful_clients import CLIENTS, TWINS, RefusedError, StatefulClient
from gateway.world import INTERACTIONS, ROUTES, GatewayWorld, InteractionsWorld

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "laws"
TARGETS = (*ROUTES.values(), INTERACTIONS)
KINDS = (
    *("say", "look", "several", "fork", "older", "restart", "second", "lost there", "late there", "evict"),
    *("system", "tools", "add", "drop"),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(("home", "twin", *TARGETS)),
        st.booleans(),
        st.integers(0, 1 << 16),
    ),
    min_size=2,
    max_size=7,
)


class Course:
    """Some conversations of one wire, and what happens to them."""

    def __init__(self, wire: str, *, state: str) -> None:
        self.late = 0.0
        made = InteractionsWorld if wire == "interaction" else GatewayWorld
        self.world = made(provider_state=state)
        self.world.emulator.clock = lambda: time() + self.late
        self.gateways = [self.world.gateway]
        self.state = state
        self.clients: list[StatefulClient] = [CLIENTS[wire](self.world)]
        self.older: list[StatefulClient] = []
        self.refused = 0
        self.answered: set[str] = set()
        self.evicted = False
        self.deltas = 0

    async def run(self, steps: list[tuple[str, str, bool, int]]) -> None:
        await self.clients[0].begin()
        for number, (kind, target, stream, chance) in enumerate(steps):
            client = self.clients[number % len(self.clients)]
            route = {"home": client.home, "twin": TWINS[client.home]}.get(target, target)
            await self.happen(kind, client, chance)
            if kind == "older" and self.older:
                client = self.older[chance % len(self.older)].fork()
            text = f"{number}: {'please look' if kind == 'look' else kind}"
            new = [client.said(text)]
            if kind == "several":
                new = [client.said("One."), client.said("Two.", "assistant"), *new]
            await self.turn(client, new, route, stream=stream)
            while client.answer is not None and client.answer.calls:
                self.older.append(client.fork())
                await self.turn(client, client.results(), client.answer.route, stream=stream)
            self.older.append(client.fork())

    async def happen(self, kind: str, client: StatefulClient, chance: int) -> None:
        """What comes before a turn."""
        match kind:
            case "system" | "tools":
                client.change(kind, chance % 3)
            case "add" | "drop":
                await client.change_items(kind, chance)
            case "fork" if client.kept:
                self.clients.append(client.fork())
            case "restart":
                self.world.restart()
                self.gateways = [self.world.gateway]
            case "second":
                if len(self.gateways) == 1:
                    self.world.restart()
                    self.gateways.append(self.world.gateway)
                self.world.gateway = self.gateways[chance % 2]
            case "lost there":
                for provider in ("openai", "anthropic", "gemini"):
                    for name in ("responses", "items", "threads", "interactions", "cached_contents"):
                        self.world.emulator.memory(provider).get(name, {}).clear()
            case "late there":
                self.late += random.Random(chance).choice((100.0, 400.0, 4000.0))
            case "evict":
                await evict(self.world, random.Random(chance))
                self.evicted = True

    async def turn(self, client: StatefulClient, new: list[Any], route: str, *, stream: bool) -> None:
        whole = client.whole(new, route, stream=stream)
        expected = await explained(client, whole, route)
        before = len(self.world.emulator.log)
        try:
            answer = await client.send(new, route, stream=stream)
        except RefusedError as error:
            assert client.lost.get(error.status, "?") in str(error.error), error
            self.refused += 1
            new = client.replay(new)
            await client.begin()
            answer = await client.send(new, route, stream=stream)
        assert answer.route == route
        self.answered.add(route)
        entries = list(self.world.emulator.log)[before:]
        entry = entries[-1]
        assert entry.verdict == "accepted", (entry.rule, entry.message)
        read, is_delta = read_by_model(self.world.emulator, entry)
        self.deltas += is_delta
        # What we do not hold goes to the provider whose API this is, if its client had it stored there.
        assert self.state == "use" or self.evicted or not is_delta
        # What we have forgotten its provider itself continues, and with thoughts that it wrote by other names.
        names = {client.home, TWINS[client.home]}
        names |= {INTERACTIONS} if client.wire == "gemini_interactions" else set()
        if self.evicted and is_delta and route in names and self.answered & names != {route}:
            return
        assert read == wire_of(entry)(expected, delta=is_delta), (client.wire, route)


async def explained(client: StatefulClient, whole: dict[str, Any], route: str) -> dict[str, Any]:
    """What a route would get of a request that holds everything."""
    path = f"/segue/v1/explain?wire={client.wire}&to={route}&model={route}"
    reply = await client.ask(path, whole)
    assert reply.status == 200, reply.body
    (shown,) = reply.json()["routes"]
    assert "error" not in shown, shown
    return dict(shown["request"])


async def evict(world: GatewayWorld, chance: random.Random) -> None:
    """The memory drops something, as it may at any time. What a gateway holds beside it goes too."""

    def drop(connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT number FROM records").fetchall()
        gone = [row for row in rows if chance.random() < 0.2]
        connection.executemany("DELETE FROM records WHERE number = ?", gone)

    await world.store._file.write(drop)
    world.restart()


@pytest.mark.parametrize("state", ["use", "never"])
@pytest.mark.parametrize("wire", CLIENTS)
def test_a_provider_reads_what_it_would_have_read_had_the_client_sent_everything(
    wire: str, state: str
) -> None:
    totals = {"refused": 0, "deltas": 0}

    @settings(max_examples=settings().max_examples if LONG else 6, deadline=None)
    @given(STEPS)
    def law(steps: list[tuple[str, str, bool, int]]) -> None:
        course = Course(wire, state=state)
        asyncio.run(course.run(steps))
        totals["refused"] += course.refused
        totals["deltas"] += course.deltas

    law()
    assert state == "never" or totals["deltas"] or wire == "socket"

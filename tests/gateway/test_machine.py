"""Clients of every wire in any order of turns, faults, switches and restarts: nothing refused, nothing lost.

A rule-based machine over two gateways on one store. Its long form: make gateway-laws.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.clients import AGENTS, Agent
from gateway.machine_world import MAKERS, PROFILES, TwoGateways, seals_in
from gateway.world import EVERY_ROUTE, GatewayResponse
from segue.conversation.events import Failed
from segue.dialects import DIALECTS
from segue.emulators.faults import Fault
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest

T = TypeVar("T")
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "laws"
SECONDS = 600.0 if LONG else 20.0
MODELS = (*PROFILES, *EVERY_ROUTE)
FAULTS = (
    Fault(kind="status", status=529),
    Fault(kind="status", status=500),
    Fault(kind="status", status=429, retry_after=0.0),
    Fault(kind="error_mid_stream"),
    Fault(kind="cut", at_byte=40),
    Fault(kind="cut", at_byte=700),
    Fault(kind="malformed"),
    Fault(kind="empty"),
    Fault(kind="content_type"),
)
wires = st.sampled_from(list(AGENTS))
mishaps = st.sampled_from((None, None, None, "gone", *FAULTS))


class Conversing:
    """What a client holds, and what is known of it."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.pending: list[tuple[str, str, Any]] = []
        """Calls of the last reply that wait for their results."""
        self.kept: list[tuple[str, bool]] = []
        """Provider, and whether it thought, of every reply that the client has to its end."""
        self.turn_routes: list[str] = []
        self.troubled = False
        """Whether something went wrong in this turn."""
        self.whole = True
        """Whether its own provider would accept its history: it never left a call without a result."""
        self.conversation = ""
        self.switched = ""


class GatewayMachine(RuleBasedStateMachine):
    """Several clients, each with one conversation."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.world = TwoGateways(Path(self.folder.name))
        self.clients: dict[str, Conversing] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, SECONDS))

    @initialize(wire=wires, model=st.sampled_from(MODELS))
    def begin(self, wire: str, model: str) -> None:
        self.clients[wire] = Conversing(AGENTS[wire](self.world, model))

    @rule(wire=wires, model=st.sampled_from(MODELS))
    def another_client(self, wire: str, model: str) -> None:
        self.clients.setdefault(wire, Conversing(AGENTS[wire](self.world, model)))

    # Turns

    @rule(
        pick=st.integers(0, 5),
        looks=st.integers(0, 3),
        stream=st.booleans(),
        at=st.integers(0, 1),
        mishap=mishaps,
    )
    def user_turn(self, pick: int, looks: int, stream: bool, at: int, mishap: Any) -> None:
        """A message of the user. Calls that wait for a result get none: the client was interrupted."""
        client = self._client(pick)
        if client.pending:
            client.whole = False
        client.pending, client.turn_routes, client.troubled = [], [], False
        client.agent.add_user(f"{client.agent.wire}: look {looks}")
        self._exchange(client, stream, at, mishap)
        if client.switched and not client.troubled:
            assert client.turn_routes == [client.switched]

    @rule(pick=st.integers(0, 5), stream=st.booleans(), at=st.integers(0, 1), mishap=mishaps, data=st.data())
    def answer_calls(self, pick: int, stream: bool, at: int, mishap: Any, data: st.DataObject) -> None:
        """The results, in any order; those of a client that was interrupted are not complete."""
        client = self._client(pick)
        if not client.pending:
            return
        results = [(call_id, name, "rain") for call_id, name, _ in client.pending]
        if client.agent.wire not in ("ollama",):  # without ids, the order is all there is
            results = data.draw(st.permutations(results))
        client.agent.add_results(results)
        client.pending = []
        self._exchange(client, stream, at, mishap)

    @precondition(lambda self: any(len(client.pending) > 1 for client in self.clients.values()))
    @rule(stream=st.booleans(), at=st.integers(0, 1), mishap=mishaps)
    def cancel_one_of_several(self, stream: bool, at: int, mishap: Any) -> None:
        client = next(client for client in self.clients.values() if len(client.pending) > 1)
        (call_id, name, _), client.pending = client.pending[0], []
        client.whole, client.turn_routes, client.troubled = False, [], False
        client.agent.add_results([(call_id, name, "rain")])
        client.agent.add_user(f"{client.agent.wire}: look 1")
        self._exchange(client, stream, at, mishap)

    @precondition(lambda self: len(self.clients) > 1)
    @rule(at=st.integers(0, 1))
    def two_at_once(self, at: int) -> None:
        one, other = list(self.clients.values())[:2]
        for client in (one, other):
            client.whole &= not client.pending
            client.pending, client.turn_routes, client.troubled = [], [], False
            client.agent.add_user(f"{client.agent.wire}: look 2")
            client.agent.stream = True
        self.world.use(at)

        async def both() -> list[GatewayResponse]:
            return list(await asyncio.gather(one.agent.send(), other.agent.send()))

        for client, reply in zip((one, other), self.run(both()), strict=True):
            self._keep(client, reply)

    # The world

    @rule(pick=st.integers(0, 5), to=st.sampled_from((*EVERY_ROUTE, "")))
    def switch(self, pick: int, to: str) -> None:
        client = self._client(pick)
        if not client.conversation:
            return
        self.run(self.world.gateway.settle())
        if self.run(self.world.gateway.memory.store.switch(client.conversation, to)):
            client.switched = to

    @rule(number=st.integers(0, 1))
    def restart(self, number: int) -> None:
        self.run(self.world.restart_one(number))

    @rule(pick=st.integers(0, 5))
    def leave(self, pick: int) -> None:
        """The client's own provider accepts what it holds, without us."""
        client = self._client(pick)
        if not client.whole or client.pending or not client.kept:
            return
        history = list(client.agent.history)
        client.agent.add_user("Thank you.")
        home = self.run(client.agent.at_home())
        client.agent.history = history
        assert home.status == 200, home.body

    # One request

    def _client(self, pick: int) -> Conversing:
        clients = list(self.clients.values())
        return clients[pick % len(clients)]

    def _exchange(self, client: Conversing, stream: bool, at: int, mishap: Any) -> None:
        """One request, sent again if something went wrong: then all is well."""
        client.agent.stream = stream
        self.world.use(at)
        if mishap == "gone":
            client.troubled = True
            self.run(self._hang_up(client))
        elif mishap is not None:
            client.troubled = True
            self.world.emulator.faults.append(mishap)
            reply = self.run(client.agent.send())
            self.world.emulator.faults.clear()
            if _is_complete(client.agent, reply):
                self._keep(client, reply)
                return
            # The breaker of a member that failed often stays open for a while: another gateway has its own.
            self.run(self.world.restart_one(at))
        self._keep(client, self.run(client.agent.send()))

    async def _hang_up(self, client: Conversing) -> None:
        """The client goes away after the first bytes."""
        agent = client.agent
        body = {**agent.body(agent.model), **({"stream": True} if agent.streams_by_field else {})}
        request = WireRequest(
            url=f"http://127.0.0.1{agent.path(agent.model)}",
            headers={"content-type": "application/json", **agent.headers},
            body=msgspec.json.encode(body),
        )
        async with AsgiTransport(self.world.gateway)(request) as answer:
            async for _ in answer.portions():
                break

    def _keep(self, client: Conversing, reply: GatewayResponse) -> None:
        agent = client.agent
        note(f"{agent.wire}: {reply.status} {dict(reply.headers)} {reply.body[-300:]!r}")
        assert reply.status == 200, reply.body
        route = reply.headers["x-segue-route"]
        client.turn_routes.append(route)
        if not client.troubled:
            assert len(set(client.turn_routes)) == 1, client.turn_routes
        client.conversation = reply.headers["x-segue-conversation"]
        provider, thought = self.world.model.answered[agent.wire]
        named = route.partition("/")[0]
        assert provider == MAKERS.get(route, MAKERS.get(named, named))
        self._check_seals(client, route)
        client.kept.append((route, thought))
        client.pending = agent.add_reply(agent.whole(reply))
        ids = [call_id for call_id, _, _ in client.pending if call_id]
        assert len(ids) == len(set(ids))

    def _check_seals(self, client: Conversing, route: str) -> None:
        """A model gets every seal of its own back, whoever answered in between."""
        mark = f"{client.agent.wire}: look"
        sent = next(one.body for one in reversed(self.world.asked(route)) if mark in json.dumps(one.body))
        provider = route.partition("/")[0]
        made = sum(thought for by, thought in client.kept if by == route)
        if (provider in ("anthropic", "openai") and "input" in sent) or provider == "anthropic":
            assert seals_in(provider, sent) == made, (made, sent)

    @invariant()
    def nothing_is_refused(self) -> None:
        refused = [(entry.rule, entry.message) for entry in self.world.refusals()]
        assert refused == []

    def teardown(self) -> None:
        self.run(self.world.close())
        self.loop.close()
        self.folder.cleanup()


def _is_complete(agent: Agent, reply: GatewayResponse) -> bool:
    """Whether a reply came to its end. One that did not is an error of the client's own wire, and a clear one."""
    dialect = DIALECTS[agent.wire]
    if reply.status != 200:
        error = dialect.decode_error(reply.status, dict(reply.headers), reply.body)
        assert error.message
        assert error.code != "unexpected"
        return False
    if not agent.stream:
        return True
    decoder = dialect.new_decoder()
    failed = [event for event in (*decoder.feed(reply.body), *decoder.close()) if type(event) is Failed]
    assert not failed or b"rror" in reply.body, reply.body[-500:]
    return not failed


TestGatewayMachine = GatewayMachine.TestCase
TestGatewayMachine.settings = settings(
    max_examples=settings().max_examples // 4 if LONG else 4,
    stateful_step_count=30 if LONG else 12,
    suppress_health_check=list(HealthCheck),
    deadline=None,
)

"""Any history of any client, through its door to any provider: never refused, losses reported, and the next turn too."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from gateway.clients import AGENTS, Agent
from gateway.world import EVERY_ROUTE, ROUTES, GatewayResponse, GatewayWorld
from segue.dialects import DIALECTS
from strategies.client_histories import SPELLERS, ClientMove, client_moves, marks_in

EXAMPLES = max(4, settings().max_examples // 10)
routes = st.sampled_from(EVERY_ROUTE)


class Story:
    """One client, one world: nothing of an example is left for the next."""

    def __init__(self, wire: str, route: str, moves: list[ClientMove], *, stream: bool) -> None:
        self.world = GatewayWorld()
        self.agent: Agent = AGENTS[wire](self.world, route, stream=stream)
        self.agent.history = SPELLERS[wire](moves)
        note(f"{wire} → {route}: {self.agent.history}")

    async def send(self) -> GatewayResponse:
        reply = await self.agent.send()
        note(f"{reply.status} {dict(reply.headers)} {reply.body[:1000]!r}")
        assert reply.status == 200
        return reply

    def accepted(self, allowed: int = 0) -> None:
        refused = [(entry.rule, entry.message) for entry in self.world.refusals()]
        assert len(refused) <= allowed, refused

    async def take_turn(self) -> None:
        """The next words of the user, to the end of the turn."""
        answer = await self.agent.turn("Please look at two cities.")
        assert answer.startswith("I know")

    async def leave(self) -> None:
        self.agent.add_user("Thank you.")
        home = await self.agent.at_home()
        assert home.status == 200, home.body


@pytest.mark.parametrize("wire", AGENTS)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_no_history_of_a_client_is_refused_and_losses_are_reported(wire: str, data: st.DataObject) -> None:
    moves, route, stream = data.draw(client_moves()), data.draw(routes), data.draw(st.booleans())

    async def main() -> None:
        story = Story(wire, route, moves, stream=stream)
        reply = await story.send()
        story.accepted()
        sent = msgspec.json.encode(story.world.asked(route)[-1].body).decode()
        lost = {mark for mark in marks_in(moves) if mark not in sent}
        assert not lost or "x-segue-losses" in reply.headers, lost
        # The reply goes into the history; the turn ends, the next one too.
        calls = story.agent.add_reply(story.agent.whole(reply))
        if calls:
            story.agent.add_results([(call_id, name, "rain") for call_id, name, _ in calls])
            ended = await story.send()
            story.agent.add_reply(story.agent.whole(ended))
        await story.take_turn()
        story.accepted()
        story.agent.model = data.draw(routes)
        await story.take_turn()
        story.accepted()

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_seals_that_nobody_knows_take_a_second_try_at_most(wire: str, data: st.DataObject) -> None:
    moves, route = data.draw(client_moves(seals=True, max_size=5)), data.draw(routes)

    async def main() -> None:
        story = Story(wire, route, moves, stream=False)
        reply = await story.send()
        sealed = any(move.sealed for move in moves)
        story.accepted(allowed=1 if sealed else 0)
        if story.world.refusals():
            assert "x-segue-repairs" in reply.headers
        calls = story.agent.add_reply(story.agent.whole(reply))
        story.agent.add_results([(call_id, name, "rain") for call_id, name, _ in calls])
        if not calls:
            story.agent.add_user("Go on.")
        await story.send()
        story.accepted(allowed=2 if sealed else 0)

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
@given(
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(("role", "content", "type", "text", "parts", "id")), inner)
        ),
        max_leaves=8,
    )
)
@settings(max_examples=EXAMPLES)
def test_what_is_no_request_is_refused_in_the_clients_own_envelope(wire: str, body: Any) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES["anthropic"])
        asked = {**agent.body(agent.model), DIALECTS[wire].messages_field: body}
        reply = await world.ask(agent.path(agent.model), asked, headers=agent.headers)
        assert reply.status in (200, 400, 422), reply.body
        if reply.status != 200:
            error = DIALECTS[wire].decode_error(reply.status, {}, reply.body)
            assert error.message
            assert error.code != "unexpected"
        # Its own provider may know what we cannot read, and then its word is the answer.
        assert [entry.status for entry in world.refusals()] in ([], [reply.status])
        assert wire == "anthropic" or world.refusals() == []

    asyncio.run(main())

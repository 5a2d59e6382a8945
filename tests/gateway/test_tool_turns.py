"""Tool turns on every wire with every provider behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld
from segue.dialects.registry import DIALECTS
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("route", ROUTES.values())
def test_a_client_of_any_wire_runs_tools_with_a_model_of_any_other_and_may_leave(
    wire: str, route: str
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, route)
        for number in range(3):
            agent.stream = number != 1
            answer = await agent.turn(f"Please look at two cities, number {number}.")
            assert answer.startswith("I know:")
            assert not answer.startswith("I know: 0")
        assert world.refusals() == []
        assert {reply.headers["x-segue-route"] for reply in agent.replies} == {route}
        agent.add_user("Thank you.")
        # Leaving is safe: what the client holds now, thoughts included, is accepted by its own provider without us.
        at_home = await agent.at_home()
        assert at_home.status == 200, at_home.body

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
def test_the_provider_of_a_wire_whose_calls_have_ids_takes_none_without(wire: str) -> None:
    """So its clients surely return them, and the gateway keeps such a reply under its ids only."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, next(route for route in ROUTES.values() if AGENTS[wire].home in route))
        await agent.turn("Please look at two cities.")
        agent.add_user("Thank you.")
        assert (await agent.at_home()).status == 200
        agent.history = _without_call_ids(agent.history)
        refused = (await agent.at_home()).status != 200
        assert refused == DIALECTS[agent.wire].client.call_ids

    asyncio.run(main())


def _without_call_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_call_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_call_ids(one) for name, one in value.items() if name not in _CALL_IDS}


_CALL_IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "toolUseId")


class _Caller:
    """A model that thinks and calls a tool at once, whatever it is asked."""

    def reply(self, prompt: Prompt) -> Reply:
        thoughts: list[Piece] = [Think("The tool knows.")] if prompt.thinking else []
        if prompt.results:
            return Reply(pieces=(*thoughts, Say("Rain.")))
        return Reply(pieces=(*thoughts, Say("I will look."), Call("weather", {"city": "Rome"})))

    def reset(self) -> None:
        """Nothing is remembered."""


@pytest.mark.parametrize("wire", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("calls", [True, False])
def test_thoughts_behind_a_reply_that_the_client_began_itself_are_never_refused(
    wire: str, *, calls: bool
) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=_Caller() if calls else None)
        agent = AGENTS[wire](world, ROUTES["anthropic"])
        agent.add_user("Hello.")
        agent.history.append({"role": "assistant", "content": "The weather is"})
        for number in range(3):
            reply = await agent.send()
            assert reply.status == 200, reply.body
            made = agent.add_reply(agent.whole(reply))
            if made:
                agent.add_results([(call_id, name, "rain") for call_id, name, _ in made])
            else:
                agent.add_user(f"And then, {number}?")
                left = await agent.at_home()
                assert left.status == 200, left.body
        assert world.refusals() == []
        if calls:
            sent = world.asked(ROUTES["anthropic"])[-1].body["messages"]
            thoughts = [block for message in sent for block in message["content"] if "thinking" in block]
            assert len(thoughts) == 2, "both replies have their seals back"

    asyncio.run(main())

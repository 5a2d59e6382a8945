"""Clients offer tools to models that know none: they are described to the model, and its words become calls."""

from __future__ import annotations

import asyncio

import pytest

from gateway.clients import AGENTS
from gateway.world import GatewayWorld
from segue.emulators.model_reply import Prompt, Reply, Say

CALL = 'Thought: The tool knows.\nAction: weather\nAction Input: {"city": "Rome"}'


class WordyModel:
    """Calls a tool in words once, then answers with what it was shown."""

    def reply(self, prompt: Prompt) -> Reply:
        if prompt.tools:
            return Reply(pieces=(Say("You are welcome."),))
        if "Observation" in prompt.text:
            return Reply(pieces=(Say("Thought: I know it.\nFinal Answer: It is rain."),))
        return Reply(pieces=(Say(CALL),))

    def reset(self) -> None:
        """Nothing is remembered."""


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize(("model", "stream"), [("ollama/gemma3:4b", True), ("ollama/deepseek-r1", False)])
def test_a_tool_turn_with_a_model_that_knows_no_tools(wire: str, model: str, *, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=WordyModel())
        agent = AGENTS[wire](world, model, stream=stream)
        for _ in range(2):
            assert await agent.turn("Please look.") == "It is rain."
        assert "calls_as_text" in agent.replies[-1].headers["x-segue-repairs"]
        # Whether a model has tools is known of some; another one refuses them once (OLL-07).
        assert sum(entry.rule == "OLL-07" for entry in world.refusals()) <= 1
        assert 'Observation: "rain in Rome"' in str(world.emulator.log[-1].body)
        agent.add_user("Thank you.")
        left = await agent.at_home()
        assert left.status == 200, left.body

    asyncio.run(main())

"""Clients offer tools to models that know none: they are described to the model, and its words become calls."""

from __future__ import annotations

import asyncio

import pytest

from gateway.clients import AGENTS
from gateway.world import GatewayWorld
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Prompt, Reply, Say

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


def test_tools_that_are_refused_to_several_clients_at_the_same_time_are_described_to_all() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=WordyModel())
        refusal = Fault(status=400, message="This model does not support tools", retry_after=None)
        world.emulator.faults.extend([refusal] * 3)
        agents = [AGENTS["anthropic"](world, "openai/gpt-4.1", stream=True) for _ in range(3)]
        assert await asyncio.gather(*(agent.turn("Please look.") for agent in agents)) == ["It is rain."] * 3

    asyncio.run(main())


class CarelessModel:
    """Writes its action wrongly a few times, then calls as it should, then answers."""

    def __init__(self, mistakes: int) -> None:
        self.mistakes = mistakes

    def reply(self, prompt: Prompt) -> Reply:
        if prompt.tools:
            return Reply(pieces=(Say("You are welcome."),))
        if "Observation:" in prompt.text:
            return Reply(pieces=(Say("Thought: I know it.\nFinal Answer: It is rain."),))
        if self.mistakes:
            self.mistakes -= 1
            words = "I fumble.\nThought: I am careless.\nAction: weather\nAction Input: {city: Rome"
            return Reply(pieces=(Say(words),))
        return Reply(pieces=(Say(CALL),))

    def reset(self) -> None:
        """Nothing is remembered."""


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", AGENTS)
def test_an_action_that_cannot_be_read_is_asked_for_again_and_never_shown(wire: str, *, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=CarelessModel(2))
        agent = AGENTS[wire](world, "ollama/gemma3:4b", stream=stream)
        assert await agent.turn("Please look.") == "It is rain."
        assert len(agent.replies) == 2
        shown = b"".join(reply.body for reply in agent.replies)
        for word in (b"fumble", b"careless", b"Error: Action Input"):
            assert word not in shown
        served = [entry for entry in world.asked("ollama/gemma3:4b") if entry.verdict == "accepted"]
        assert len(served) == 4
        assert "must be valid JSON" in str(served[1].body)
        assert "must be valid JSON" not in str(served[3].body), "the client's history has no corrections"
        once, corrected = (served[at].body["messages"] for at in (0, 2))
        assert corrected[: len(once)] == once, "the prefix stays"
        # What the mistakes cost is part of what the reply cost.
        first, second = world.reports[0].usage, world.reports[1].usage
        assert first.input_tokens is not None
        assert second.input_tokens is not None
        assert first.input_tokens > 2 * second.input_tokens
        agent.add_user("Thank you.")
        left = await agent.at_home()
        assert left.status == 200, left.body

    asyncio.run(main())


def test_a_model_that_never_writes_its_action_properly_is_not_asked_for_ever() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=CarelessModel(100))
        agent = AGENTS["openai_chat"](world, "ollama/gemma3:4b", stream=True)
        assert "Action Input: {city: Rome" in await agent.turn("Please look.")
        assert len([entry for entry in world.emulator.log if entry.verdict == "accepted"]) == 4

    asyncio.run(main())


def test_a_final_answer_is_streamed_while_it_is_written() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=WordyModel())
        agent = AGENTS["openai_chat"](world, "ollama/gemma3:4b", stream=True)
        await agent.turn("Please look.")
        assert agent.replies[-1].body.count(b'"content":"') > 1

    asyncio.run(main())

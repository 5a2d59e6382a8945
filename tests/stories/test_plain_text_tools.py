"""Models without native calling, over HTTP: the same session goes native, in words, and native again."""

from __future__ import annotations

import asyncio

import pytest

from segue.emulators.model.model_reply import Prompt, Reply, Say
from stories.world import NAMES, StoryResponder, World, cancelled_fan_out, good_turn

WITHOUT_TOOLS = "ollama/gemma3:4b"


class Wordy(StoryResponder):
    """Calls a tool in words when it is told of tools in words."""

    def reply(self, prompt: Prompt) -> Reply:
        if prompt.tools or not prompt.model.startswith("gemma3"):
            return super().reply(prompt)
        if prompt.text.rstrip().endswith("look"):
            wish = 'Thought: let me look\nAction: weather\nAction Input: {"city": "Rome"}'
            return Reply(pieces=(Say(wish),))
        if "Observation:" in prompt.text:
            return Reply(pieces=(Say("Thought: that is it\nFinal Answer: I know: it rains."),))
        return super().reply(prompt)


@pytest.mark.requirement("REQ-915-004")
@pytest.mark.parametrize("name", NAMES)
def test_a_session_goes_from_native_calls_to_calls_in_words_and_back(world: World, name: str) -> None:
    world.emulator.responder = Wordy()

    async def main() -> None:
        async with world.chat(name) as chat:
            await good_turn(chat)
            await cancelled_fan_out(chat)
            await chat.switch(WITHOUT_TOOLS)
            answer = await chat.send("look")
            assert answer.error is None, answer.error
            assert answer.text.strip() == "I know: it rains."
            last = list(chat.ledger.values())[-1]
            assert (last.call.name, last.status) == ("weather", "complete")
            await chat.switch(name)
            await good_turn(chat)

    try:
        asyncio.run(main())
    finally:
        world.emulator.responder = StoryResponder()
    assert world.refusals() == []


@pytest.mark.parametrize("name", NAMES)
def test_results_reach_a_model_without_tools_also_when_none_are_offered(world: World, name: str) -> None:
    async def main() -> None:
        async with world.chat(name) as chat:
            await good_turn(chat)
            await chat.equip(())
            switch = await chat.switch(WITHOUT_TOOLS)
            assert switch is not None
            assert {loss.kind for loss in switch.losses} <= {"reasoning_dropped", "seal_dropped"}
            answer = await chat.send("And now?")
            assert answer.error is None, answer.error

    asyncio.run(main())
    assert world.refusals() == []
    messages = world.requests(WITHOUT_TOOLS)[-1].body["messages"]
    assert {message["role"] for message in messages} <= {"system", "user", "assistant"}
    assert not any("tool_calls" in message for message in messages)
    texts = "\n".join(str(message["content"]) for message in messages)
    for city in ("Rome", "Oslo"):
        assert f'{{"city":"{city}","sky":"rain"}}' in texts

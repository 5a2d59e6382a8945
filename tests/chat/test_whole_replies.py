"""Chats with models that may not be streamed, over real HTTP: the same turns, the same events."""

from __future__ import annotations

import asyncio

import pytest

from segue.chat.chat import Chat
from segue.conversation.options import Options
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.server import serve
from segue.events import Finish, TextChunk, ToolCallStart
from segue.providers.registry import default_registry


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


REPLIES = (
    Reply(pieces=(Think("Where?"), Call("weather", {"city": "Rome"}))),
    Reply(pieces=(Think("I see."), Say("It rains in Rome."))),
    Reply(pieces=(Say("You are welcome."),)),
)


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5.5"])
@pytest.mark.parametrize("refuses", [True, False])
def test_a_tool_turn_with_a_model_that_does_not_stream(model: str, *, refuses: bool) -> None:
    emulator = Emulator(
        strict=True, responder=ScriptedResponder(REPLIES), unstreamed=["*"] if refuses else []
    )
    emulator.sends_whole = not refuses

    async def main(base_url: str) -> None:
        environment = {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": base_url}
        registry = default_registry(environ=environment, keyring=False)
        async with Chat(f"openai/{model}", providers=registry, tools=[weather]) as chat:
            events = [event async for event in chat.stream("Do I need an umbrella?")]
            assert isinstance(events[-1], Finish)
            assert (
                "".join(event.text for event in events if isinstance(event, TextChunk)) == "It rains in Rome."
            )
            assert sum(isinstance(event, ToolCallStart) for event in events) == 1
            answer = await chat.send("Thanks.")
            assert answer.text == "You are welcome."
            assert answer.usage.output_tokens

    with serve(emulator=emulator) as api:
        asyncio.run(main(api.url("openai") + "/v1"))
    refusals = [entry.rule for entry in emulator.log if entry.verdict == "refused"]
    assert refusals == (["OAI-08"] if refuses else [])
    assert len(emulator.log) - len(refusals) == 3


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5.5"])
def test_a_chat_that_asks_for_whole_replies_gets_them(model: str) -> None:
    emulator = Emulator(strict=True, responder=ScriptedResponder(REPLIES))

    async def main(base_url: str) -> None:
        environment = {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": base_url}
        registry = default_registry(environ=environment, keyring=False)
        options = Options(stream=False)
        async with Chat(f"openai/{model}", providers=registry, tools=[weather], options=options) as chat:
            assert str(await chat.send("Do I need an umbrella?")) == "It rains in Rome."
            assert [bool(entry.body.get("stream")) for entry in emulator.log] == [False, False]
            await chat.send("Thanks.", options=Options(stream=True))
            assert emulator.log[-1].body["stream"] is True

    with serve(emulator=emulator) as api:
        asyncio.run(main(f"{api.url('openai')}/v1"))

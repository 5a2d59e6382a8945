"""What a model lacks stands in words, and in the same words whether a chat or a client of the gateway asks it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.world import GatewayWorld, providers_at
from segue.chat.chat import Chat
from segue.conversation.options import Options
from segue.providers.scripted import ScriptedProvider, says

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
OPEN: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}


@pytest.mark.parametrize(
    ("model", "in_words"),
    [
        ("anthropic/claude-sonnet-4-20250514", True),
        ("anthropic/claude-sonnet-4-6", False),
        ("gemini/gemini-3.5-flash", False),
        ("mistral/mistral-large-latest", False),
    ],
)
def test_a_chat_and_a_client_of_the_gateway_ask_a_model_for_the_same_schema_alike(
    model: str, *, in_words: bool
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        question = {"role": "user", "content": "Where?"}
        body = {
            "model": model,
            "messages": [question],
            "response_format": FORMAT,
            "max_tokens": 4000,
            "stream": True,
        }
        reply = await world.ask("/v1/chat/completions", body)
        assert reply.status == 200, reply.body
        options = Options(response_schema=SCHEMA, max_tokens=4000)
        async with Chat(model, providers=providers_at(world.app), options=options) as chat:
            await chat.send("Where?")
        by_gateway, by_chat = (entry.body or {} for entry in world.asked(model))
        assert by_chat == by_gateway
        assert ("Answer with JSON that follows this schema" in str(by_chat)) is in_words

    asyncio.run(main())


def test_a_schema_that_a_wire_cannot_hold_an_answer_to_is_read_in_words() -> None:
    async def main() -> None:
        world = GatewayWorld()
        model = "anthropic/claude-sonnet-4-6"
        async with Chat(
            model, providers=providers_at(world.app), options=Options(response_schema=OPEN)
        ) as chat:
            await chat.send("Where?")
        (sent,) = world.asked(model)
        assert "Answer with JSON that follows this schema" in str((sent.body or {})["system"])

    asyncio.run(main())


def test_what_is_known_of_a_model_is_known_to_everyone_who_asks_its_provider() -> None:
    provider = ScriptedProvider([says("Hello.")])
    assert provider.takes_tools("m")
    provider.learn_lack("m", "tools")
    assert not provider.takes_tools("m")
    assert provider.takes_tools("another")
    assert ScriptedProvider().takes_tools("m")

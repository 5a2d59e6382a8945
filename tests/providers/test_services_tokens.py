"""Counting tokens where a provider counts them, with the bodies that a chat would send."""

from __future__ import annotations

import asyncio

import pytest

from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.registry import DIALECTS
from segue.emulators.faults import Fault
from segue.emulators.server import Served
from segue.errors import OverloadError
from segue.providers.endpoint import Endpoint
from segue.providers.models.cards import card_for_model
from segue.providers.services import services_of
from segue.transcript.render import render
from strategies.endpoints import closing, emulated

COUNTING = [
    ("anthropic", "claude-sonnet-4-6"),
    ("gemini", "gemini-2.5-flash"),
    ("openai_responses", "gpt-4.1"),
]
TOOL = ToolSpec("look", "Look something up.", {"type": "object", "properties": {"what": {"type": "string"}}})


def body_of(dialect: str, model: str, text: str) -> bytes:
    """A request with all that a count has no use for."""
    spoken, card = DIALECTS[dialect], card_for_model(model, dialect)
    options = Options(model=model, stream=True, max_tokens=100, temperature=0.5, stop=("x",))
    transcript = render(Conversation((user(text),), system="Be brief."), None, spoken.rules)
    return spoken.encode_request(transcript, (TOOL,), options, card).body


async def count(at: Endpoint, model: str, text: str) -> int:
    counting = services_of(at.dialect.name).count_tokens
    assert counting is not None
    return await counting(at, model, body_of(at.dialect.name, model, text))


@pytest.mark.parametrize(("dialect", "model"), COUNTING)
@pytest.mark.requirement("Property 23")
def test_the_provider_counts_a_chat_request(dialect: str, model: str, segue_emulator_server: Served) -> None:
    async def main(text: str) -> int:
        return await closing(emulated(segue_emulator_server, dialect), lambda at: count(at, model, text))

    short, long = asyncio.run(main("hi")), asyncio.run(main("word " * 800))
    assert 0 < short < 200
    assert long - short > 900


@pytest.mark.requirement("Property 11")
def test_who_cannot_count_says_so() -> None:
    counting = {dialect for dialect in DIALECTS if services_of(dialect).count_tokens is not None}
    assert counting == {"converse", *(dialect for dialect, _ in COUNTING)}  # test_bedrock.py has it


@pytest.mark.parametrize(("dialect", "model"), COUNTING)
def test_a_count_that_fails_is_an_error(dialect: str, model: str, segue_emulator_server: Served) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=503))

    async def main() -> int:
        return await closing(emulated(segue_emulator_server, dialect), lambda at: count(at, model, "hi"))

    with pytest.raises(OverloadError):
        asyncio.run(main())

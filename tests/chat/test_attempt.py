"""One request: whatever ends it, the turn says so."""

from __future__ import annotations

import asyncio

import pytest

from segue.chat.chat import Chat
from segue.conversation.events import Finished, TextDelta
from segue.providers.scripted import ScriptedProvider, ScriptLine, says
from segue.routing.retry import RetrySettings
from segue.routing.route import MemberFacts, parse_route
from segue.routing.router import SingleRouter

ROUTER = SingleRouter(
    parse_route("scripted/m"), lambda _: MemberFacts(), retry=RetrySettings(attempts=2, first_pause=0)
)


def test_a_reply_that_ends_with_a_word_for_an_error_is_an_error() -> None:
    async def main() -> None:
        half: list[ScriptLine] = [TextDelta(0, "Well"), Finished("error", "engine_overloaded")]
        provider = ScriptedProvider([half, says("Better.")])
        async with Chat(ROUTER, providers={"scripted": provider}) as chat:
            events = [event async for event in chat.stream("Hello?")]
            assert [event.type for event in events] == ["text", "error", "finish"]
            assert chat.answer is not None
            assert chat.answer.text == "Well"
            assert chat.answer.error is not None
            assert "engine_overloaded" in str(chat.answer.error)
            with pytest.raises(type(chat.answer.error)):
                chat.answer.or_raise()
            assert (await chat.send("Again?")).text == "Better."

    asyncio.run(main())


def test_before_anything_was_shown_such_a_reply_is_asked_for_again() -> None:
    async def main() -> None:
        provider = ScriptedProvider([[Finished("error", "MALFORMED_FUNCTION_CALL")], says("There you are.")])
        async with Chat(ROUTER, providers={"scripted": provider}) as chat:
            answer = await chat.send("Hello?")
            assert (answer.text, answer.finish, answer.error) == ("There you are.", "complete", None)

    asyncio.run(main())

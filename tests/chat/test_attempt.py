"""One request: whatever ends it, the turn says so."""

from __future__ import annotations

import asyncio

import pytest

from segue.chat.chat import Chat
from segue.conversation.events import Finished, TextDelta
from segue.events import Warned
from segue.providers.scripted import ScriptedProvider, ScriptLine, says
from segue.routing.retry import RetrySettings
from segue.routing.route import MemberFacts, parse_route
from segue.routing.router import SingleRouter
from segue.sessions.entries import ModelReplied

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


def test_a_reply_with_lines_that_could_not_be_read_is_marked_incomplete_everywhere() -> None:
    async def main() -> None:
        provider = ScriptedProvider([[TextDelta(0, "half of"), Finished("stop", unread=2)], says("whole")])
        async with Chat("scripted/m", providers={"scripted": provider}) as chat:
            events = [event async for event in chat.stream("go")]
            warned = [(event.code, event.message) for event in events if type(event) is Warned]
            assert warned == [
                ("incomplete_reply", "2 lines of the reply could not be read: it may be incomplete.")
            ]
            assert chat.answer is not None
            assert chat.answer.incomplete
            entries = [record.entry for record in await chat.journal.store.read(chat.id)]
            assert [entry.unread for entry in entries if type(entry) is ModelReplied] == [2]
            assert not (await chat.send("again")).incomplete

    asyncio.run(main())


def test_before_anything_was_shown_such_a_reply_is_asked_for_again() -> None:
    async def main() -> None:
        provider = ScriptedProvider([[Finished("error", "MALFORMED_FUNCTION_CALL")], says("There you are.")])
        async with Chat(ROUTER, providers={"scripted": provider}) as chat:
            answer = await chat.send("Hello?")
            assert (answer.text, answer.finish, answer.error) == ("There you are.", "complete", None)

    asyncio.run(main())


def test_one_line_that_could_not_be_read_is_one_line() -> None:
    async def main() -> None:
        provider = ScriptedProvider([[TextDelta(0, "half of"), Finished("stop", unread=1)]])
        async with Chat("scripted/m", providers={"scripted": provider}) as chat:
            events = [event async for event in chat.stream("go")]
            (warned,) = [event.message for event in events if type(event) is Warned]
            assert warned == "1 line of the reply could not be read: it may be incomplete."

    asyncio.run(main())

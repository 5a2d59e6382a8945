"""One request: whatever ends it, the turn says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from segue.chat.chat import Chat
from segue.conversation.events import Finished, TextDelta, UsageReported
from segue.conversation.usage import Usage
from segue.events import TextChunk
from segue.providers.adapter import ChatRequest, ProviderAdapter, StreamEvent
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


class _Talkative(ProviderAdapter):
    """Goes on after an abort: says one more word, counts what all of it cost, and ends as if nothing had happened."""

    name = "talkative"

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        yield TextDelta(0, "before")
        assert request.abort is not None
        await request.abort.wait()
        await asyncio.sleep(0.01)
        yield TextDelta(0, "after")
        yield UsageReported(Usage(input_tokens=7, output_tokens=2))
        yield Finished("stop")


def test_behind_an_abort_only_the_usage_of_a_reply_is_heard() -> None:
    async def main() -> None:
        async with Chat("talkative/m", providers={"talkative": _Talkative()}) as chat:
            said: list[str] = []
            async for event in chat.stream("go"):
                if isinstance(event, TextChunk):
                    said.append(event.text)
                    chat.cancel()
            assert said == ["before"]
            assert chat.answer is not None
            assert (chat.answer.text, chat.answer.finish) == ("before", "cancelled")
            assert (chat.answer.usage.input_tokens, chat.answer.usage.output_tokens) == (7, 2)

    asyncio.run(main())


def look() -> str:
    return "seen"


class _Late(ProviderAdapter):
    """Ends its reply, and then says more in the same breath."""

    name = "late"

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        yield TextDelta(0, "all")
        yield Finished("stop")
        yield TextDelta(0, " and more")


@pytest.mark.parametrize("in_words", [False, True])
def test_behind_the_end_of_a_reply_nothing_is_heard(*, in_words: bool) -> None:
    async def main() -> None:
        provider = _Late()
        router = SingleRouter(parse_route("late/m"), lambda _: MemberFacts(tools=not in_words))
        async with Chat(router, providers={"late": provider}, tools=[look]) as chat:
            assert (await chat.send("go")).text == "all"

    asyncio.run(main())

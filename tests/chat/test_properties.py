"""Properties of a turn, for any calls, any results, any failure and any moment at which it is aborted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.chat.chat import Chat
from segue.conversation.blocks import ToolResult
from segue.conversation.events import ArgumentsDelta, CallStarted, Event, TextDelta
from segue.conversation.message import Message
from segue.errors import InvalidRequestError
from segue.events import ChatEvent, Error, Finish, ToolCallChunk, ToolCallResult, ToolCallStart
from segue.exchange import attempt
from segue.providers.adapter import ChatRequest, ProviderAdapter
from segue.providers.scripted import ScriptedProvider, ScriptLine, calls, says
from segue.routing.retry import RetrySettings
from segue.routing.route import MemberFacts, parse_route
from segue.routing.router import SingleRouter
from strategies.examples import AT_LEAST_100

requirement = pytest.mark.requirement
_WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
_VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=20) | st.lists(_WORDS, max_size=3)
_ROUNDS = st.lists(st.lists(_VALUES, min_size=1, max_size=4), min_size=1, max_size=3)
"""Of each exchange with calls: what each of its calls returns."""
_NO_TOOLS = InvalidRequestError("no tools here", status=400, code="tools_unsupported")
_ONCE = RetrySettings(attempts=1)


def _scripted(*replies: list[ScriptLine]) -> dict[str, Any]:
    return {"scripted": ScriptedProvider(replies)}


async def _events(chat: Chat, said: str = "go") -> list[ChatEvent]:
    return [event async for event in chat.stream(said)]


def _results(message: Message) -> list[ToolResult]:
    return [block for block in message.blocks if isinstance(block, ToolResult)]


@AT_LEAST_100
@requirement("Property 6", "Property 7", "Property 29", "Property 30", "Property 31")
@given(rounds=_ROUNDS)
def test_the_calls_of_a_reply_run_behind_its_stream_and_their_results_are_in_the_next_request(
    rounds: list[list[Any]],
) -> None:
    async def give(turn: int, number: int) -> Any:
        return rounds[turn][number]

    async def main() -> None:
        script = [
            [
                *calls(*(("give", {"turn": turn, "number": n}) for n in range(len(values)))),
                TextDelta(0, "late"),
            ]
            for turn, values in enumerate(rounds)
        ]
        providers = _scripted(*script, says("Done."))
        async with Chat("scripted/m", providers=providers, tools=[give]) as chat:
            events = await _events(chat)
            history = chat.conversation.messages
        requests = providers["scripted"].requests
        assert [len(request.conversation.messages) for request in requests] == [
            1 + 2 * turn for turn in range(len(rounds) + 1)
        ]
        assert [message.speaker for message in history] == ["user", *["model", "tool"] * len(rounds), "model"]
        assert requests[-1].conversation.messages == history[:-1]
        for turn, values in enumerate(rounds):
            results = _results(history[2 + 2 * turn])
            assert [result.output for result in results] == values
            assert [result.call_id for result in results] == [call.id for call in history[1 + 2 * turn].calls]
            assert {result.name for result in results} == {"give"}
        assert all(message.blocks for message in history)
        _began_behind_the_stream(events)

    asyncio.run(main())


def _began_behind_the_stream(events: list[ChatEvent]) -> None:
    """A call begins when all of its reply has arrived."""
    running = False
    for event in events:
        if isinstance(event, ToolCallStart):
            running = True
        elif isinstance(event, ToolCallChunk):
            assert not running
        elif event.type == "turn_complete":
            running = False


@AT_LEAST_100
@requirement("Property 8")
@given(order=st.permutations(range(5)), many=st.integers(2, 5))
def test_all_calls_of_a_reply_are_under_way_before_the_first_ends(order: list[int], many: int) -> None:
    """They end in any order, and each only when all have begun: one after another they would never end."""

    async def main() -> None:
        begun: list[int] = []
        everybody = asyncio.Event()
        turns = [number for number in order if number < many]
        may_end = {number: asyncio.Event() for number in turns}
        may_end[turns[0]].set()

        async def meet(number: int) -> int:
            begun.append(number)
            if len(begun) == many:
                everybody.set()
            await everybody.wait()
            await may_end[number].wait()
            following = turns.index(number) + 1
            if following < many:
                may_end[turns[following]].set()
            return number

        wishes = calls(*(("meet", {"number": number}) for number in range(many)))
        async with Chat("scripted/m", providers=_scripted(wishes, says("Done.")), tools=[meet]) as chat:
            events = await asyncio.wait_for(_events(chat), 10)
            ended = [event.result.output for event in events if isinstance(event, ToolCallResult)]
            assert ended == turns
            assert [result.output for result in _results(chat.conversation.messages[2])] == list(range(many))

    asyncio.run(main())


@AT_LEAST_100
@requirement("Property 21")
@given(
    thought=_WORDS,
    answer=_WORDS.filter(lambda word: not word.startswith(("`", "*"))),
    written=st.none() | st.sampled_from(["{}", '{"a": 1}', "no json", "[1]", ""]),
)
def test_a_final_answer_ends_the_turn_whatever_stands_before_it(
    thought: str, answer: str, written: str | None
) -> None:
    ran: list[int] = []

    async def look() -> None:
        ran.append(1)

    async def main() -> None:
        action = "" if written is None else f"Action: look\nAction Input: {written}\n"
        reply = says(f"Thought: {thought}\n{action}Final Answer: {answer}")
        providers = _scripted([_NO_TOOLS], reply, says("Final Answer: asked again"))
        async with Chat("scripted/m", providers=providers, tools=[look]) as chat:
            said = await chat.send("go")
        assert (said.text.strip(), said.finish) == (answer.strip(), "complete")
        assert len(providers["scripted"].requests) == 2, "one with tools, and one with tools in words"
        assert not ran

    asyncio.run(main())


@AT_LEAST_100
@requirement("Property 33")
@given(written=st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=30))
def test_an_action_whose_input_is_no_json_object_is_asked_for_again(written: str) -> None:
    ran: list[Any] = []

    async def look() -> str:
        ran.append(1)
        return "seen"

    async def main() -> None:
        reply = says(f"Thought: t\nAction: look\nAction Input: [{written}")
        providers = _scripted([_NO_TOOLS], reply, says("Final Answer: corrected"))
        async with Chat("scripted/m", providers=providers, tools=[look]) as chat:
            assert (await chat.send("go")).text.strip() == "corrected"
        assert not ran
        _, first, second = (request.conversation.messages for request in providers["scripted"].requests)
        assert second[: len(first)] == first
        assert "must be valid JSON" in second[-1].text or "must be a JSON object" in second[-1].text

    asyncio.run(main())


class _Watched(ProviderAdapter):
    """A provider that counts its open streams and fails, where it is told to, with any error."""

    name = "watched"

    def __init__(self, events: list[Event], error: BaseException | None = None) -> None:
        self.events, self.error = events, error
        self.streams = self.closed = 0

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[Event]:
        self.streams += 1
        try:
            for event in self.events:
                await asyncio.sleep(0)
                yield event
            if self.error is not None:
                raise self.error
            await asyncio.sleep(60)
        finally:
            self.closed += 1


_PIECES: list[Event] = [
    TextDelta(0, "a"),
    TextDelta(0, "b"),
    CallStarted(1, "x", "look"),
    ArgumentsDelta(1, "{}"),
]


@AT_LEAST_100
@requirement("Property 5", "Property 34")
@given(said=st.integers(0, len(_PIECES)), at=st.integers(0, 25))
def test_an_abort_closes_the_stream_cancels_what_runs_and_is_told_once(said: int, at: int) -> None:
    async def main() -> None:
        provider = _Watched(_PIECES[:said])
        chat = Chat("watched/m", providers={"watched": provider, **_scripted(says("fine"))})
        async with chat:
            tasks = asyncio.all_tasks()
            listening = asyncio.create_task(_events(chat))
            while not chat.busy:
                await asyncio.sleep(0)
            for _ in range(at):
                await asyncio.sleep(0)
            chat.cancel()
            events = await asyncio.wait_for(listening, 5)
            assert [event.reason for event in events if isinstance(event, Finish)] == ["cancelled"]
            assert provider.closed == provider.streams
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == tasks
            await chat.switch("scripted/m")
            assert (await chat.send("and now?")).text == "fine"

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attempt, "GRACE", 0.001)  # the provider never ends by itself
        asyncio.run(main())


_ERRORS = st.sampled_from(
    [ValueError, KeyError, OSError, RuntimeError, RecursionError, MemoryError, StopIteration, AssertionError]
)


@AT_LEAST_100
@requirement("Property 35")
@given(said=st.integers(0, len(_PIECES)), error=_ERRORS, reason=_WORDS)
def test_whatever_a_provider_raises_is_one_error_event_and_the_chat_goes_on(
    said: int, error: type[Exception], reason: str
) -> None:
    async def main() -> None:
        provider = _Watched(_PIECES[:said], error(reason))
        providers = {"watched": provider, **_scripted(says("fine"))}
        router = SingleRouter(parse_route("watched/m"), lambda _: MemberFacts(), retry=_ONCE)
        async with Chat(router, providers=providers) as chat:
            events = await _events(chat)
            (told,) = [event.error for event in events if isinstance(event, Error)]
            assert told.code == "unexpected"
            assert error.__name__ in str(told)
            assert [event.reason for event in events if isinstance(event, Finish)] == ["error"]
            assert provider.closed == provider.streams == 1
            assert chat.answer is not None
            assert chat.answer.text == "ab"[:said], "what came before it is kept"
            await chat.switch("scripted/m")
            assert (await chat.send("and now?")).text == "fine"

    asyncio.run(main())

"""The chat as its user holds it: one turn at a time, whatever happens in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.chat.chat import Chat
from segue.chat.turn import Answer
from segue.conversation.blocks import Media, Text, ToolResult
from segue.conversation.document import decode_document
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    UsageReported,
)
from segue.conversation.options import Options
from segue.conversation.usage import Usage
from segue.errors import (
    CredentialsError,
    InvalidRequestError,
    JournalError,
    OverloadError,
    RouteError,
    TransportError,
    UsageError,
)
from segue.events import (
    ChatEvent,
    Error,
    Finish,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
    ToolCallResult,
    ToolCallStart,
    TurnComplete,
    Warned,
    as_dict,
)
from segue.exchange import attempt
from segue.providers.adapter import ChatRequest, ProviderAdapter
from segue.providers.registry import default_registry
from segue.providers.scripted import Pause, ScriptedProvider, ScriptLine, calls, says
from segue.routing.profiles import Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import facts_from
from segue.sessions.entries import ModelReplied, TurnEnded, UserSaid
from segue.sessions.stores.memory import MemoryStore
from segue.tools.definition import Context, Output
from segue.tools.scheduler import Scheduler
from strategies.examples import AT_LEAST_100


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


async def slow(seconds: float = 30) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "at last"


def chat_with(*replies: list[ScriptLine], **settings: Any) -> tuple[Chat, ScriptedProvider]:
    provider = ScriptedProvider(replies)
    return Chat("scripted/m", providers={"scripted": provider}, **settings), provider


async def hear(chat: Chat, *said: Any) -> list[ChatEvent]:
    return [event async for event in chat.stream(*said)]


def kinds(events: list[ChatEvent]) -> list[str]:
    return [event.type for event in events]


@pytest.mark.requirement("Property 28")
def test_a_plain_answer_is_told_while_it_arrives_and_finishes_once() -> None:
    async def main() -> None:
        chat, _ = chat_with(says("Hello!", reasoning="a greeting"))
        async with chat:
            events = await hear(chat, "hi")
        assert events[:2] == [ReasoningChunk("a greeting"), TextChunk("Hello!")]
        assert kinds(events) == ["reasoning", "text", "turn_complete", "finish"]

    asyncio.run(main())


@pytest.mark.requirement("Property 29", "Property 27", "REQ-915-001")
def test_the_conversation_is_kept_over_turns_and_each_request_is_made_of_all_of_it() -> None:
    async def main() -> None:
        chat, provider = chat_with(
            calls(("weather", {"city": "Oslo"}), text="let me look"),
            says("take one"),
            says("yes"),
            tools=[weather],
        )
        async with chat:
            assert (await chat.send("umbrella?")).text == "take one"
            assert (await chat.send("sure?")).text == "yes"
            speakers = [message.speaker for message in chat.conversation.messages]
            assert speakers == ["user", "model", "tool", "model", "user", "model"]
        lengths = [len(request.conversation.messages) for request in provider.requests]
        assert lengths == [1, 3, 5]
        last = provider.requests[-1]
        result = last.conversation.messages[2].blocks[0]
        assert isinstance(result, ToolResult)
        assert result.output == "rain in Oslo"
        assert last.ledger is not None
        assert last.ledger["c0"].status == "complete"

    asyncio.run(main())


@pytest.mark.requirement("Property 6", "Property 7", "REQ-915-032")
def test_calls_run_after_the_stream_and_only_results_are_fed_back() -> None:
    async def main() -> None:
        ran: list[float] = []

        async def note() -> str:
            ran.append(time.perf_counter())
            return "noted"

        first: list[ScriptLine] = [
            CallStarted(1, "x", "note"),
            ArgumentsDelta(1, "{}"),
            Pause(0.05),
            TextDelta(2, "and so on"),
            Finished("tool_calls"),
        ]
        chat, provider = chat_with(first, says("done"), tools=[note])
        async with chat:
            started = time.perf_counter()
            events = await hear(chat, "go")
            assert kinds(events) == [
                "tool_call",
                "tool_call",
                "text",
                "tool_call_start",
                "tool_call_result",
                "turn_complete",
                "text",
                "turn_complete",
                "finish",
            ]
            assert ran[0] - started >= 0.05
        fed_back = provider.requests[1].conversation.messages
        assert [message.speaker for message in fed_back] == ["user", "model", "tool"]
        assert all(isinstance(block, ToolResult) for block in fed_back[-1].blocks)
        assert len([call for message in fed_back for call in message.calls]) == 1

    asyncio.run(main())


_EVENTS = st.lists(
    st.builds(TextDelta, st.integers(0, 3).map(lambda n: 3 * n), st.text(min_size=1))
    | st.builds(ReasoningDelta, st.integers(0, 3).map(lambda n: 3 * n + 1), st.text(min_size=1))
    | st.builds(CallStarted, st.integers(0, 3).map(lambda n: 3 * n + 2), st.just("x"), st.just("weather"))
    | st.builds(
        ArgumentsDelta, st.integers(0, 3).map(lambda n: 3 * n + 2), st.sampled_from(["{", '"a"', "}"])
    ),
    max_size=20,
)
_ENDS: st.SearchStrategy[ScriptLine] = st.sampled_from(
    [Finished("stop"), Finished("length"), Finished("content_filter"), InvalidRequestError("no", status=400)]
)


def chunks_of(events: list[Event]) -> list[ChatEvent]:
    """What a chat reports of a reply while it arrives."""
    names: dict[int, str] = {}
    chunks: list[ChatEvent] = []
    for event in events:
        match event:
            case TextDelta(_, text):
                chunks.append(TextChunk(text))
            case ReasoningDelta(_, text):
                chunks.append(ReasoningChunk(text))
            case CallStarted(index, _, name):
                names[index] = name
                chunks.append(ToolCallChunk(index, name))
            case ArgumentsDelta(index, text):
                chunks.append(ToolCallChunk(index, names.get(index, ""), text))
    return chunks


@AT_LEAST_100
@pytest.mark.requirement("Property 4", "Property 28")
@given(events=_EVENTS, end=_ENDS, late=_EVENTS)
def test_events_are_passed_on_in_the_order_and_with_the_content_that_the_provider_gave_them(
    events: list[Event], end: ScriptLine, late: list[Event]
) -> None:
    """Text, reasoning and calls, all of them up to the end, and nothing that comes after it."""

    async def main() -> None:
        chat, _ = chat_with([*events, end, *late], max_turns=1, tools=[weather])
        async with chat:
            told = await hear(chat, "go")
        pieces = TextChunk | ReasoningChunk | ToolCallChunk
        assert [event for event in told if isinstance(event, pieces)] == chunks_of(events)
        assert [type(event) for event in told].count(Finish) == 1
        assert type(told[-1]) is Finish
        assert [event.error for event in told if type(event) is Error] == (
            [end] if isinstance(end, InvalidRequestError) else []
        )

    asyncio.run(main())


def test_long_arguments_are_reported_while_they_arrive() -> None:
    async def main() -> None:
        pieces: list[ScriptLine] = [ArgumentsDelta(0, '{"city": "'), Pause(0.2), ArgumentsDelta(0, 'Oslo"}')]
        chat, _ = chat_with(
            [CallStarted(0, "x", "weather"), *pieces, Finished("tool_calls")], says("rain"), tools=[weather]
        )
        async with chat:
            seen = [
                (time.perf_counter(), event.arguments)
                async for event in chat.stream("go")
                if type(event) is ToolCallChunk
            ]
        assert [text for _, text in seen] == ["", '{"city": "', 'Oslo"}']
        assert seen[2][0] - seen[1][0] > 0.1

    asyncio.run(main())


def test_text_is_told_the_moment_it_arrives() -> None:
    async def main() -> None:
        chat, _ = chat_with([TextDelta(0, "soon"), Pause(0.3), TextDelta(0, "late"), Finished("stop")])
        async with chat:
            started = time.perf_counter()
            async with aclosing(chat.stream("go")) as told:
                async for event in told:
                    assert event == TextChunk("soon")
                    assert time.perf_counter() - started < 0.2
                    break

    asyncio.run(main())


@pytest.mark.requirement("Property 9")
def test_a_model_that_never_stops_calling_is_stopped_once() -> None:
    async def main() -> None:
        provider = ScriptedProvider(answer=lambda request: calls(("weather", {"city": "Rome"})))
        async with Chat("scripted/m", tools=[weather], providers={"scripted": provider}) as chat:
            events = await hear(chat, "go")
            assert len(provider.requests) == 10
            assert [event.reason for event in events if type(event) is Finish] == ["max_turns"]
            provider.add(says("fine"))
            assert (await chat.send("well?")).finish == "complete"

    asyncio.run(main())


@pytest.mark.requirement("Property 5", "Property 34")
def test_a_cancelled_stream_ends_with_one_cancellation_and_keeps_what_was_said() -> None:
    async def main() -> None:
        chat, _ = chat_with([TextDelta(0, "once upon"), Pause(30), Finished("stop")], says("go on"))
        async with chat:
            events = []
            async for event in chat.stream("a story"):
                events.append(event)
                chat.cancel()
            assert kinds(events) == ["text", "finish"]
            last = events[-1]
            assert isinstance(last, Finish)
            assert last.reason == "cancelled"
            assert last.usage.input_tokens, "what was handed over is counted"
            assert last.usage.output_tokens
            assert chat.conversation.messages[-1].text == "once upon"
            assert (await chat.send("more")).text == "go on"
            assert chat.cancel() is False

    asyncio.run(main())


class Deaf(ProviderAdapter):
    """Takes no notice of an abort, nor of being cancelled more than it must."""

    name = "deaf"

    def __init__(self) -> None:
        self.closed = False

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[Event]:
        try:
            yield TextDelta(0, "hm")
            await asyncio.sleep(60)
        finally:
            self.closed = True


@pytest.mark.requirement("Property 34")
def test_a_provider_that_ignores_the_abort_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "GRACE", 0.05)

    async def main() -> None:
        provider = Deaf()
        async with Chat("deaf/m", providers={"deaf": provider}) as chat:
            asyncio.get_running_loop().call_later(0.05, chat.cancel)
            answer = await asyncio.wait_for(chat.send("hello"), 2)
            assert (answer.finish, answer.text, answer.error) == ("cancelled", "hm", None)
            assert provider.closed

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-034")
def test_cancelling_running_tools_keeps_finished_results_and_goes_the_normal_way() -> None:
    async def main() -> None:
        wishes = calls(("weather", {"city": "Oslo"}), ("slow", {}), ("slow", {}))
        chat, provider = chat_with(wishes, says("what now?"), tools=[weather, slow])
        async with chat:
            events = []
            async for event in chat.stream("go"):
                events.append(event)
                if type(event) is ToolCallResult:
                    chat.cancel()
            assert type(events[-1]) is Finish and events[-1].reason == "cancelled"
            speakers = [message.speaker for message in chat.conversation.messages]
            assert speakers == ["user", "model", "tool"]
            assert [chat.ledger[call].status for call in ("c0", "c1", "c2")] == [
                "complete",
                "cancelled",
                "cancelled",
            ]
            assert (await chat.send("and?")).text == "what now?"
            assert len(provider.requests) == 2

    asyncio.run(main())


def test_who_stops_listening_cancels_the_turn() -> None:
    async def main() -> None:
        chat, _ = chat_with(calls(("slow", {})), says("fine"), tools=[slow])
        async with chat:
            async with aclosing(chat.stream("go")) as told:
                async for event in told:
                    if type(event) is ToolCallStart:
                        break
            assert not chat.busy
            assert chat.answer is not None
            assert chat.answer.finish == "cancelled"
            assert (await chat.send("again")).text == "fine"

    asyncio.run(main())


def test_cancelling_the_task_that_waits_for_an_answer_cancels_the_turn_and_tears_nothing() -> None:
    async def main() -> None:
        chat, _ = chat_with(calls(("slow", {})), says("fine"), tools=[slow])
        async with chat:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(chat.send("go"), 0.05)
            assert not chat.busy
            assert chat.ledger["c0"].status == "cancelled"
            assert not chat.journal.state.in_turn
            assert (await chat.send("again")).text == "fine"

    asyncio.run(main())


def test_a_second_message_during_a_turn_is_refused_and_the_turn_goes_on() -> None:
    async def main() -> None:
        chat, _ = chat_with([Pause(0.1), *says("first")])
        async with chat:
            first = asyncio.create_task(chat.send("one"))
            await asyncio.sleep(0.03)
            for attempt_at in (chat.send("two"), chat.undo(), chat.compact(), chat.fork()):
                with pytest.raises(UsageError) as refused:
                    await attempt_at
                assert refused.value.code == "turn_in_flight"
            assert (await first).text == "first"

    asyncio.run(main())


def test_whoever_hears_the_finish_may_go_on_at_once() -> None:
    async def main() -> None:
        chat, _ = chat_with(says("one"), says("two"))
        async with chat:
            async for event in chat.stream("1"):
                if type(event) is Finish:
                    assert (await chat.send("2")).text == "two"

    asyncio.run(main())


def test_send_raises_why_a_turn_failed_and_the_error_has_the_answer_so_far() -> None:
    async def main() -> None:
        broken = [*says("Half of")[:-1], InvalidRequestError("no such field", status=400)]
        chat, _ = chat_with(broken, [InvalidRequestError("still not", status=400)], says("fine"))
        async with chat:
            with pytest.raises(InvalidRequestError, match="no such field") as failed:
                await chat.send("go")
            answer = failed.value.answer
            assert isinstance(answer, Answer)
            assert (answer.text, answer.finish, answer.error) == ("Half of", "error", failed.value)
            with pytest.raises(InvalidRequestError, match="still not"):
                await chat.resume()
            assert str(await chat.resume()) == "fine"

    asyncio.run(main())


def test_whoever_asks_for_it_gets_the_answer_of_a_failed_turn_with_its_error() -> None:
    refused = InvalidRequestError("no such field", status=400)
    chat, _ = chat_with([refused], [refused])
    with chat.blocking() as blocking:
        answer = blocking.send("go", raises=False)
        assert isinstance(answer.error, InvalidRequestError)
        assert isinstance(blocking.resume(raises=False).error, InvalidRequestError)


def test_a_chat_without_a_key_raises_instead_of_answering_with_nothing() -> None:
    providers = default_registry(environ={}, keyring=False)
    with Chat("openai/gpt-4.1", providers=providers).blocking() as chat, pytest.raises(CredentialsError):
        chat.send("Hello!")


def test_an_error_ends_the_turn_and_the_chat_stays_usable() -> None:
    async def main() -> None:
        chat, _ = chat_with([InvalidRequestError("no such field", status=400)], says("fine"))
        async with chat:
            events = await hear(chat, "go")
            assert kinds(events) == ["error", "finish"]
            assert as_dict(events[0])["error"]["message"] == "no such field"
            assert chat.answer is not None
            with pytest.raises(InvalidRequestError):
                chat.answer.or_raise()
            assert (await chat.send("again")).text == "fine"
            records = await chat.journal.store.read(chat.id)
            ends = [record.entry for record in records if isinstance(record.entry, TurnEnded)]
            assert [end.finish for end in ends] == ["error", "complete"]
            assert ends[0].error is not None

    asyncio.run(main())


def test_a_reply_that_breaks_off_after_text_was_shown_is_kept_and_never_repeated() -> None:
    async def main() -> None:
        broken: list[ScriptLine] = [
            TextDelta(0, "The answer is"),
            CallStarted(1, "x", "weather"),
            ArgumentsDelta(1, '{"city": "Os'),
            TransportError("the connection broke"),
        ]
        chat, provider = chat_with(broken, says("42"), tools=[weather])
        async with chat:
            events = await hear(chat, "go")
            assert kinds(events) == ["text", "tool_call", "tool_call", "error", "finish"]
            said = chat.conversation.messages[-1]
            assert (said.speaker, said.text, said.calls) == ("model", "The answer is", ())
            assert len(provider.requests) == 1
            replied = [
                record.entry
                for record in await chat.journal.store.read(chat.id)
                if isinstance(record.entry, ModelReplied)
            ]
            assert [entry.finish for entry in replied] == ["error"]
            assert (await chat.send("which is?")).text == "42"

    asyncio.run(main())


def test_whole_calls_of_a_reply_that_broke_off_are_closed_and_not_run() -> None:
    async def main() -> None:
        ran: list[int] = []

        def mark() -> str:
            ran.append(1)
            return "marked"

        broken = [*calls(("mark", {}))[:-1], OverloadError("busy", status=529)]
        chat, _ = chat_with([TextDelta(9, "so"), *broken], says("fine"), tools=[mark])
        async with chat:
            answer = await chat.send("go", raises=False)
            assert answer.finish == "error"
            assert ran == []
            assert chat.ledger["c0"].result == ToolResult(
                "c0",
                "mark",
                "No result: the reply that asked for this call broke off, so it did not run.",
                reason="provider_error",
            )
            assert (await chat.send("again")).text == "fine"

    asyncio.run(main())


class Raising(ProviderAdapter):
    name = "raising"

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[Event]:
        yield TextDelta(0, "")
        raise self.error


class Endless(ProviderAdapter):
    name = "endless"

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[Event]:
        yield TextDelta(0, "and then")


@pytest.mark.requirement("Property 35")
def test_an_unexpected_exception_becomes_an_error_event_and_nothing_dies() -> None:
    async def main() -> None:
        providers = {"raising": Raising(ZeroDivisionError("1/0")), "endless": Endless()}
        async with Chat("raising/m", providers=providers) as chat:
            events = await hear(chat, "go")
            assert kinds(events) == ["error", "finish"]
            assert type(events[0]) is Error
            assert events[0].error.code == "unexpected"
            assert "ZeroDivisionError" in str(events[0].error)
            await chat.switch("endless/m")
            answer = await chat.send("go", raises=False)
            assert answer.error is not None
            assert (answer.text, answer.error.code) == ("and then", "no_end")

    asyncio.run(main())


class Failing(MemoryStore):
    """Writes until it is told not to."""

    broken = False

    async def append(self, lease: Any, entries: Any) -> int:
        if self.broken:
            raise OSError("disk full")
        return await super().append(lease, entries)


@AT_LEAST_100
@pytest.mark.requirement("Property 32", "Property 35")
@given(
    errors=st.lists(
        st.sampled_from([ValueError, OSError, KeyError, RuntimeError, TimeoutError]), min_size=1, max_size=4
    )
)
def test_whatever_tools_raise_becomes_their_results_and_the_conversation_continues(
    errors: list[type[Exception]],
) -> None:
    def fails(number: int) -> str:
        raise errors[number](f"reason {number}")

    async def main() -> None:
        wishes = calls(*(("fails", {"number": number}) for number in range(len(errors))))
        chat, provider = chat_with(wishes, says("I see."), says("yes"), tools=[fails])
        async with chat:
            answer = await chat.send("go")
            assert (answer.finish, answer.error, answer.text) == ("complete", None, "I see.")
            results = [
                block for block in chat.conversation.messages[2].blocks if isinstance(block, ToolResult)
            ]
            assert provider.requests[1].conversation.messages[2].blocks == tuple(results)
            for number, result in enumerate(results):
                assert result.error is not None
                assert f"reason {number}" in result.error
            assert len(results) == len(errors)
            assert (await chat.send("more?")).text == "yes"

    asyncio.run(main())


@pytest.mark.requirement("Property 35")
def test_a_store_that_fails_is_an_error_event_and_the_chat_goes_on_when_it_works_again() -> None:
    async def main() -> None:
        store = Failing()

        def fill() -> str:
            store.broken = True
            return "full"

        chat, _ = chat_with(calls(("fill", {})), says("never"), says("fine"), tools=[fill], store=store)
        async with chat:
            answer = await chat.send("go", raises=False)
            assert answer.error is not None
            assert "disk full" in str(answer.error)
            assert (await chat.send("still?", raises=False)).error is not None
            store.broken = False
            answer = await chat.send("now?")
            assert answer.error is None
            assert chat.ledger["c0"].status == "cancelled"

    asyncio.run(main())


@pytest.mark.requirement("Property 35")
@pytest.mark.parametrize("fault", [OSError("disk full"), JournalError("The store is gone.")])
def test_a_store_that_fails_at_the_very_end_of_a_turn_is_an_error_too(fault: Exception) -> None:
    class Full(MemoryStore):
        async def append(self, lease: Any, entries: Any) -> int:
            if any(type(one.entry) is TurnEnded for one in entries):
                raise fault
            return await super().append(lease, entries)

    async def main() -> None:
        chat, _ = chat_with(says("fine"), store=Full())
        async with chat:
            answer = await chat.send("go", raises=False)
            assert answer.finish == "error"
            assert str(fault) in str(answer.error)

    asyncio.run(main())


def test_when_all_members_fail_the_answer_names_each_of_them() -> None:
    async def main() -> None:
        one, two = (ScriptedProvider([[Failed(OverloadError(f"{n} is busy."))]]) for n in ("one", "two"))
        providers = {"one": one, "two": two}
        profile = Profile(name="team", members=("one/m", "two/m"), retry=RetrySettings(attempts=1))
        async with Chat(build_router(profile, facts_from(providers)), providers=providers) as chat:
            answer = await chat.send("go", raises=False)
            assert isinstance(answer.error, RouteError)
            assert [name for name, _ in answer.error.failures] == ["one/m", "two/m"]

    asyncio.run(main())


def test_a_router_that_can_ask_nobody_is_no_reason_to_shorten_the_conversation() -> None:
    async def main() -> None:
        down = CredentialsError("No key.", status=401)
        replies = [says(f"answer {n}") for n in range(6)]
        one = ScriptedProvider([*replies, [Failed(down)]])
        providers = {"one": one}
        profile = Profile(name="team", members=("one/m", "nobody/m"), retry=RetrySettings(attempts=1))
        async with Chat(build_router(profile, facts_from(providers)), providers=providers) as chat:
            for n in range(6):
                await chat.send(f"question {n}")
            before = chat.conversation.messages
            for _ in range(2):
                answer = await chat.send("go", raises=False)
                assert answer.error is not None
                assert answer.error.remedy != "shrink"
            assert chat.conversation.messages[: len(before)] == before
            entries = [record.entry for record in await chat.journal.store.read(chat.id)]
            assert not any(type(entry).__name__ == "Compacted" for entry in entries)

    asyncio.run(main())


def test_a_provider_that_is_not_registered_is_an_error_and_nothing_is_written() -> None:
    async def main() -> None:
        async with Chat("nowhere/m", providers={}) as chat:
            events = await hear(chat, "go")
            assert kinds(events) == ["error", "finish"]
            assert chat.answer is not None
            assert chat.answer.error is not None
            assert chat.answer.error.code == "unknown_provider"
            assert 'Provider "nowhere" not registered' in str(chat.answer.error)
            assert chat.conversation.messages == ()

    asyncio.run(main())


@pytest.mark.parametrize("said", [(), ("",), ("  \n",)])
def test_nothing_is_not_a_message(said: tuple[str, ...]) -> None:
    async def main() -> None:
        chat, _ = chat_with()
        async with chat:
            with pytest.raises(UsageError):
                await chat.send(*said)

    asyncio.run(main())


def test_images_and_texts_are_one_message() -> None:
    async def main() -> None:
        chat, provider = chat_with(says("a cat"))
        async with chat:
            image = Media("image", "image/png", "AAAA")
            await chat.send("what is this?", image)
        assert provider.requests[0].conversation.messages[0].blocks == (Text("what is this?"), image)

    asyncio.run(main())


def test_a_lone_surrogate_in_a_prompt_does_no_harm() -> None:
    async def main() -> None:
        chat, _ = chat_with(says("ok"))
        async with chat:
            assert (await chat.send("odd \ud800 text")).error is None

    asyncio.run(main())


def test_system_prompt_tools_and_options_reach_the_request() -> None:
    async def main() -> None:
        chat, provider = chat_with(
            says("ok"), system="Be brief.", options=Options(temperature=0.1), tools=[weather]
        )
        async with chat:
            await chat.send("hi")
        (request,) = provider.requests
        assert request.conversation.system == "Be brief."
        assert request.options.temperature == 0.1
        assert [spec.name for spec in request.tools] == ["weather"]
        assert request.model == "m"

    asyncio.run(main())


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="weather"):
        chat_with(tools=[weather, weather])


def test_usage_is_summed_over_the_turn_and_the_session() -> None:
    async def main() -> None:
        chat, _ = chat_with(
            calls(("weather", {"city": "Rome"}), usage=Usage(10, 5)),
            says("ok", usage=Usage(20, 7)),
            says("ok", usage=Usage(30, 1)),
            tools=[weather],
        )
        async with chat:
            events = await hear(chat, "go")
            assert [event.usage for event in events if type(event) is TurnComplete] == [
                Usage(10, 5),
                Usage(20, 7),
            ]
            assert chat.answer is not None
            assert chat.answer.usage == Usage(30, 12)
            await chat.send("more")
            assert chat.usage == Usage(60, 13)

    asyncio.run(main())


def test_an_empty_reply_is_told_and_leaves_no_empty_message() -> None:
    async def main() -> None:
        chat, _ = chat_with([UsageReported(Usage(3, 0)), Finished("stop")], says("here"))
        async with chat:
            events = await hear(chat, "go")
            assert [event.code for event in events if type(event) is Warned] == ["empty_reply"]
            assert [message.speaker for message in chat.conversation.messages] == ["user"]
            assert chat.usage == Usage(3, 0)
            assert (await chat.send("hello?")).text == "here"

    asyncio.run(main())


def test_a_reply_cut_at_its_length_says_so() -> None:
    async def main() -> None:
        chat, _ = chat_with(says("half of", finish="length"))
        async with chat:
            answer = await chat.send("go")
            assert (answer.finish, answer.text, answer.error) == ("length", "half of", None)

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-030")
def test_a_session_has_one_scheduler_for_all_its_turns(schedulers: list[Scheduler]) -> None:
    async def main() -> None:
        replies = [reply for _ in range(3) for reply in (calls(("weather", {"city": "Rome"})), says("ok"))]
        chat, _ = chat_with(*replies, tools=[weather])
        async with chat:
            for _ in range(3):
                assert (await chat.send("go")).finish == "complete"
        assert len(schedulers) == 1

    asyncio.run(main())


def test_tools_that_declare_effects_need_an_approval_and_own_functions_do_not() -> None:
    from segue.tools.approval import Approval
    from segue.tools.function_tools import tool

    @tool(effect="run")
    def shell(command: str) -> str:
        return f"ran {command}"

    async def main() -> None:
        wish = calls(("shell", {"command": "ls"}), ("weather", {"city": "Rome"}))
        chat, _ = chat_with(wish, says("ok"), tools=[shell, weather])
        async with chat:
            await chat.send("go")
            assert [interaction.status for interaction in chat.ledger.values()] == ["cancelled", "complete"]
        chat, _ = chat_with(wish, says("ok"), tools=[shell, weather], approval=Approval("yolo"))
        async with chat:
            await chat.send("go")
            assert [interaction.status for interaction in chat.ledger.values()] == ["complete", "complete"]

    asyncio.run(main())


def test_a_turn_can_be_undone_and_redone() -> None:
    async def main() -> None:
        chat, provider = chat_with(says("one"), says("two"), says("other"))
        async with chat:
            await chat.send("1")
            await chat.send("2")
            await chat.undo()
            assert [message.text for message in chat.conversation.messages] == ["1", "one"]
            await chat.redo()
            assert len(chat.conversation.messages) == 4
            await chat.undo()
            await chat.send("3")
            assert [message.text for message in provider.requests[-1].conversation.messages] == [
                "1",
                "one",
                "3",
            ]
            with pytest.raises(UsageError):
                await chat.redo()

    asyncio.run(main())


def test_ids_are_never_given_twice_also_after_an_undo() -> None:
    async def main() -> None:
        chat, _ = chat_with(
            calls(("weather", {"city": "Rome"})),
            says("a"),
            calls(("weather", {"city": "Oslo"})),
            says("b"),
            tools=[weather],
        )
        async with chat:
            await chat.send("1")
            await chat.undo()
            await chat.send("2")
            assert list(chat.ledger) == ["c0", "c1"]
            assert chat.conversation.messages[1].calls[0].id == "c1"

    asyncio.run(main())


def test_a_fork_goes_its_own_way() -> None:
    async def main() -> None:
        chat, provider = chat_with(
            calls(("weather", {"city": "Rome"})), says("one"), says("here"), says("there"), tools=[weather]
        )
        async with chat:
            await chat.send("1")
            async with await chat.fork() as other:
                assert (await chat.send("2")).text == "here"
                assert (await other.send("3")).text == "there"
                assert other.id != chat.id
                assert [message.text for message in other.conversation.messages][-2:] == ["3", "there"]
                assert other.ledger["c0"].status == "complete"
            assert [spec.name for spec in provider.requests[-1].tools] == ["weather"]
            assert chat.conversation.messages[-1].text == "here"

    asyncio.run(main())


def test_a_session_is_gone_on_with_under_its_id() -> None:
    async def main() -> None:
        store = MemoryStore()
        provider = ScriptedProvider([calls(("weather", {"city": "Rome"})), says("rain"), says("still")])
        providers = {"scripted": provider}
        first = Chat(
            "scripted/m", session="trip", store=store, providers=providers, system="Brief.", tools=[weather]
        )
        async with first:
            await first.send("umbrella?")
        async with Chat(session="trip", store=store, providers=providers, tools=[weather]) as again:
            assert again.model == "scripted/m"
            assert again.conversation.system == "Brief."
            assert again.ledger["c0"].status == "complete"
            assert (await again.send("and now?")).text == "still"
        async with Chat(session="trip", store=store, providers=providers, system="Long.") as third:
            assert third.conversation.system == "Long."
            assert len(third.conversation.messages) == 6

    asyncio.run(main())


def test_what_a_crash_left_open_is_closed_and_no_tool_runs_twice() -> None:
    async def main() -> None:
        store = MemoryStore()
        ran: list[int] = []
        begun = asyncio.Event()

        async def once() -> str:
            ran.append(1)
            begun.set()
            await asyncio.sleep(60)
            return "done"

        provider = ScriptedProvider([calls(("once", {})), says("I see")])
        settings: dict[str, Any] = {
            "session": "s",
            "store": store,
            "providers": {"scripted": provider},
            "tools": [once],
        }
        lost = Chat("scripted/m", **settings)
        turn = asyncio.create_task(lost.send("go"))
        await begun.wait()
        # The process is gone at this point: nothing of the first chat is heard of any more.
        async with Chat("scripted/m", take_over=True, **settings) as chat:
            assert chat.ledger["c0"].result == ToolResult("c0", "once", reason="interrupted")
            assert (await chat.send("what happened?")).text == "I see"
            assert ran == [1]
        turn.cancel()
        await asyncio.wait({turn})

    asyncio.run(main())


def test_the_export_is_a_document_that_can_be_read_again() -> None:
    async def main() -> None:
        chat, _ = chat_with(calls(("weather", {"city": "Rome"})), says("rain"), tools=[weather])
        async with chat:
            await chat.send("go")
            conversation, ledger = decode_document(chat.export())
            assert conversation.messages == chat.conversation.messages
            assert ledger is not None
            assert dict(ledger) == dict(chat.ledger)

    asyncio.run(main())


def test_a_tool_may_answer_with_media() -> None:
    async def camera(context: Context) -> Output:
        return Output("here", media=(Media("image", "image/png", "AAAA"),))

    async def main() -> None:
        chat, _ = chat_with(calls(("camera", {})), says("nice"), tools=[camera])
        async with chat:
            await chat.send("look")
            result = chat.ledger["c0"].result
            assert result is not None
            assert result.media[0].mime == "image/png"

    asyncio.run(main())


def test_a_chat_that_is_not_open_says_so() -> None:
    chat, _ = chat_with()
    with pytest.raises(UsageError, match="not open"):
        _ = chat.conversation


def test_closing_during_a_turn_ends_it_first() -> None:
    async def main() -> None:
        store = MemoryStore()
        chat, _ = chat_with(calls(("slow", {})), tools=[slow], store=store)
        await chat.open()
        session = chat.id
        waiting = asyncio.create_task(chat.send("go"))
        await asyncio.sleep(0.05)
        await chat.close()
        assert (await waiting).finish == "cancelled"
        entries = [record.entry for record in await store.read(session)]
        assert isinstance(entries[-1], TurnEnded)
        assert isinstance(entries[1], UserSaid)

    asyncio.run(main())


def test_a_turn_that_was_left_or_cancelled_is_waited_for_by_the_next_message() -> None:
    async def main() -> None:
        chat, _ = chat_with(calls(("slow", {})), says("one"), calls(("slow", {})), says("two"), tools=[slow])
        async with chat:
            async for event in chat.stream("go"):
                if type(event) is ToolCallStart:
                    break
            assert (await chat.send("at once")).text == "one"
            lost = asyncio.create_task(chat.send("go"))
            await asyncio.sleep(0.05)
            chat.cancel()
            assert (await chat.send("at once again")).text == "two"
            assert (await lost).finish == "cancelled"
            await chat.undo()

    asyncio.run(main())


def test_a_chat_that_was_closed_can_be_opened_again_as_it_was_left() -> None:
    async def main() -> None:
        chat, provider = chat_with(says("one"), says("two"), system="Brief.")
        async with chat:
            await chat.send("1")
            await chat.change(system="Long.")
            first = chat.id
        async with chat:
            assert chat.id == first
            await chat.send("2")
            assert len(chat.conversation.messages) == 4
        assert provider.requests[-1].conversation.system == "Long."

    asyncio.run(main())


def test_a_session_whose_model_nobody_knows_is_let_go_of() -> None:
    async def main() -> None:
        store = MemoryStore()
        nameless = Chat(session="s", store=store, providers={})
        with pytest.raises(UsageError):
            await nameless.open()
        async with Chat("scripted/m", session="s", store=store, providers={}) as chat:
            assert chat.id == "s"

    asyncio.run(main())


def test_a_model_that_only_thought_is_told_to_have_said_nothing() -> None:
    async def main() -> None:
        chat, _ = chat_with([ReasoningDelta(0, "hm"), Finished("stop")])
        async with chat:
            events = await hear(chat, "go")
            assert [event.code for event in events if type(event) is Warned] == ["empty_reply"]

    asyncio.run(main())


def test_tools_can_be_changed_between_turns_and_the_scheduler_stays() -> None:
    async def main() -> None:
        chat, provider = chat_with(
            calls(("weather", {"city": "Rome"})), says("a"), calls(("slow", {"seconds": 0})), says("b")
        )
        async with chat:
            await chat.send("1")
            assert chat.ledger["c0"].status == "error"
            await chat.equip([slow])
            await chat.send("2")
            assert chat.ledger["c1"].status == "complete"
            assert [spec.name for spec in provider.requests[-1].tools] == ["slow"]

    asyncio.run(main())


def test_a_turn_without_exchanges_is_refused() -> None:
    with pytest.raises(UsageError):
        chat_with(max_turns=0)


def test_a_passing_failure_after_tools_have_run_is_tried_again_where_it_was_and_no_tool_runs_twice() -> None:
    async def main() -> None:
        ran: list[int] = []

        def once() -> str:
            ran.append(1)
            return "done"

        chat, provider = chat_with(
            calls(("once", {})),
            [OverloadError("busy", status=503, retry_after=0.0)],
            says("fine"),
            tools=[once],
        )
        async with chat:
            assert (await chat.send("go")).text == "fine"
            assert ran == [1]
            assert provider.requests[1].conversation == provider.requests[2].conversation

    asyncio.run(main())


def test_a_misspelt_provider_and_a_name_without_one_suggest_what_is_meant() -> None:
    with pytest.raises(UsageError, match="Did you mean anthropic/claude-sonnet-5-5"):
        Chat("sonnet")

    async def main() -> None:
        with pytest.raises(UsageError, match='Did you mean "openai"'):
            await Chat("openia/gpt-5").send("hi")

    asyncio.run(main())

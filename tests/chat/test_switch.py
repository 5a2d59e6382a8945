"""Going to another model: between turns only, by hand, by turns, or because one fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from segue.chat.chat import Chat
from segue.chat.compaction.trigger import CompactionSettings
from segue.conversation.events import ArgumentsDelta, CallStarted, Finished, TextDelta
from segue.errors import (
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    RateLimitError,
    TransportError,
    UsageError,
)
from segue.events import (
    ChatEvent,
    Compaction,
    Finish,
    Retrying,
    Switch,
    ToolCallChunk,
    ToolCallResult,
    TurnComplete,
    Warned,
)
from segue.providers.adapter import ChatRequest
from segue.providers.capabilities import Capabilities
from segue.providers.scripted import Pause, ScriptedProvider, ScriptLine, calls, says
from segue.providers.token_counts import estimate_request, family_of
from segue.routing.profiles import Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import MemberFacts, Route, facts_from
from segue.sessions.entries import Compacted, Switched, TurnEnded, TurnResumed, UserSaid


def look() -> str:
    return "seen"


async def nap(seconds: float = 0.1) -> str:
    await asyncio.sleep(seconds)
    return "rested"


class Pair:
    """Two providers, and who was asked in which order."""

    def __init__(self, a: list[list[ScriptLine]], b: list[list[ScriptLine]]) -> None:
        self.asked: list[str] = []
        self.a = ScriptedProvider(a, name="a")
        self.b = ScriptedProvider(b, name="b")
        self.providers = {"a": self.a, "b": self.b}

    def chat(self, model: Any = "a/m", **settings: Any) -> Chat:
        return Chat(model, providers=self.providers, tools=[look, nap], **settings)

    def router(self, policy: Any, **settings: Any) -> Any:
        profile = Profile(
            name="both", policy=policy, members=("a/m", "b/m"), retry=RetrySettings(attempts=1), **settings
        )
        return build_router(profile, facts_from(self.providers))


async def hear(chat: Chat, said: str) -> list[ChatEvent]:
    return [event async for event in chat.stream(said)]


@pytest.mark.requirement("REQ-915-003")
def test_a_switch_after_a_turn_takes_effect_with_the_next_request_and_loses_nothing() -> None:
    async def main() -> None:
        pair = Pair([calls(("look", {})), says("from a")], [says("from b")])
        async with pair.chat() as chat:
            await chat.send("1")
            told = await chat.switch("b/m")
            assert told == Switch("a/m", "b/m", "asked")
            assert (await chat.send("2")).text == "from b"
            (request,) = pair.b.requests
            assert [message.speaker for message in request.conversation.messages] == [
                "user",
                "model",
                "tool",
                "model",
                "user",
            ]
            switched = [
                record.entry
                for record in await chat.journal.store.read(chat.id)
                if isinstance(record.entry, Switched)
            ]
            assert switched == [Switched(previous="a/m", model="b/m")]

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-002", "REQ-915-050")
def test_a_switch_asked_for_during_a_turn_waits_for_its_end_and_the_last_one_holds() -> None:
    async def main() -> None:
        pair = Pair([calls(("nap", {})), calls(("look", {})), says("still a")], [says("now b")])
        async with pair.chat() as chat:
            events: list[ChatEvent] = []
            async for event in chat.stream("go"):
                events.append(event)
                if type(event) is ToolCallResult:
                    assert await chat.switch("a/other") is None
                    assert await chat.switch("b/m") is None
                    assert chat.model == "a/m"
            assert len(pair.a.requests) == 3
            assert {request.model for request in pair.a.requests} == {"m"}
            switches = [event for event in events if type(event) is Switch]
            assert switches == [Switch("a/m", "b/m", "asked")]
            assert type(events[-1]) is Finish
            assert (await chat.send("next")).text == "now b"

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-050")
def test_a_cancelled_turn_is_an_end_that_a_switch_waits_for() -> None:
    async def main() -> None:
        pair = Pair([calls(("nap", {"seconds": 30}))], [says("b it is")])
        async with pair.chat() as chat:
            turn = asyncio.create_task(chat.send("go"))
            await asyncio.sleep(0.05)
            assert await chat.switch("b/m") is None
            chat.cancel()
            assert (await turn).finish == "cancelled"
            assert chat.model == "b/m"
            assert (await chat.send("next")).text == "b it is"
            assert pair.b.requests[0].ledger is not None
            assert pair.b.requests[0].ledger["c0"].status == "cancelled"

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-050", "REQ-915-003")
def test_a_turn_that_failed_is_an_end_too() -> None:
    async def main() -> None:
        pair = Pair([[Pause(0.1), InvalidRequestError("no", status=400)]], [says("b it is")])
        async with pair.chat() as chat:
            turn = asyncio.create_task(chat.send("go", raises=False))
            await asyncio.sleep(0.03)
            assert await chat.switch("b/m") is None
            assert (await turn).finish == "error"
            assert (await chat.send("next")).text == "b it is"

    asyncio.run(main())


@pytest.mark.parametrize("name", ["nowhere/m", "b", ""])
def test_a_switch_to_nowhere_is_refused_and_nothing_changes(name: str) -> None:
    async def main() -> None:
        pair = Pair([says("a")], [])
        async with pair.chat() as chat:
            with pytest.raises(UsageError):
                await chat.switch(name)
            assert (await chat.send("go")).text == "a"

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-002", "REQ-915-042")
def test_round_robin_changes_the_model_per_turn_and_never_within_one() -> None:
    async def main() -> None:
        pair = Pair(
            [calls(("look", {})), says("a1"), calls(("look", {})), says("a2")],
            [calls(("look", {})), calls(("look", {})), says("b1")],
        )
        async with pair.chat(pair.router("round_robin")) as chat:
            answers = [await chat.send(str(n)) for n in range(3)]
            assert [answer.text for answer in answers] == ["a1", "b1", "a2"]
            assert [answer.model for answer in answers] == ["a/m", "b/m", "a/m"]
            turns = [
                record.entry.model
                for record in await chat.journal.store.read(chat.id)
                if isinstance(record.entry, UserSaid)
            ]
            assert turns == ["a/m", "b/m", "a/m"]

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-043")
@pytest.mark.parametrize(
    "error",
    [
        OverloadError("busy", status=529),
        CredentialsError("bad key", status=401),
        TransportError("unreachable"),
    ],
    ids=["overload", "credentials", "network"],
)
def test_a_first_exchange_that_fails_goes_elsewhere_with_the_whole_conversation(error: Exception) -> None:
    async def main() -> None:
        pair = Pair([[error], [error]], [calls(("look", {})), says("b saves it")])  # type: ignore[list-item]
        async with pair.chat(pair.router("failover")) as chat:
            events = await hear(chat, "go")
            (switch,) = [event for event in events if type(event) is Switch]
            assert (switch.previous, switch.model, switch.reason) == ("a/m", "b/m", "failover")
            assert chat.answer is not None
            assert (chat.answer.text, chat.answer.model) == ("b saves it", "b/m")
            assert [m.text for m in pair.b.requests[0].conversation.messages] == ["go"]

    asyncio.run(main())


def test_nothing_goes_elsewhere_once_something_was_shown() -> None:
    async def main() -> None:
        pair = Pair([[TextDelta(0, "well,"), OverloadError("busy", status=529)]], [says("never")])
        async with pair.chat(pair.router("failover")) as chat:
            answer = await chat.send("go", raises=False)
            assert (answer.finish, answer.text) == ("error", "well,")
            assert pair.b.requests == []

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-002")
def test_nothing_goes_elsewhere_once_a_call_of_the_turn_has_run() -> None:
    async def main() -> None:
        pair = Pair([calls(("look", {})), [OverloadError("busy", status=529)]], [says("later")])
        async with pair.chat(pair.router("failover"), continue_turns=False) as chat:
            answer = await chat.send("go", raises=False)
            assert answer.finish == "error"
            assert pair.b.requests == []
            assert chat.ledger["c0"].status == "complete"

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-002", "REQ-915-043")
def test_a_turn_that_fails_after_its_calls_have_run_ends_and_is_continued_by_the_next_member() -> None:
    async def main() -> None:
        error = OverloadError("busy", status=529)
        pair = Pair([calls(("look", {})), [error]], [calls(("look", {})), says("done")])
        async with pair.chat(pair.router("failover")) as chat:
            events = await hear(chat, "go")
            assert [event.type for event in events if type(event) is not ToolCallChunk] == [
                "tool_call_start",
                "tool_call_result",
                "turn_complete",
                "switch",
                "tool_call_start",
                "tool_call_result",
                "turn_complete",
                "text",
                "turn_complete",
                "finish",
            ]
            (switch,) = [event for event in events if type(event) is Switch]
            assert (switch.previous, switch.model, switch.reason, switch.error) == (
                "a/m",
                "b/m",
                "failover",
                error,
            )
            numbers = [event.number for event in events if type(event) is TurnComplete]
            assert numbers == [1, 2, 3]
            answer = chat.answer
            assert answer is not None
            assert (answer.text, answer.finish, answer.error, answer.model) == (
                "done",
                "complete",
                None,
                "b/m",
            )
            # The first turn has an end of its own before anything goes elsewhere, and no call runs twice.
            entries = [record.entry for record in await chat.journal.store.read(chat.id)]
            ends = [entry.finish for entry in entries if isinstance(entry, TurnEnded)]
            assert ends == ["error", "complete"]
            failed = next(place for place, entry in enumerate(entries) if isinstance(entry, TurnEnded))
            assert [type(entry) for entry in entries[failed + 1 : failed + 3]] == [Switched, TurnResumed]
            assert len(pair.b.requests) == 2
            assert list(chat.ledger) == ["c0", "c1"]
            # The member that answered is preferred, and one undo takes back what one prompt brought.
            await chat.undo()
            assert chat.conversation.messages == ()

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-002")
@pytest.mark.parametrize(
    "last",
    [
        [TextDelta(0, "well,"), OverloadError("busy", status=529)],
        [CallStarted(0, "x", "look"), ArgumentsDelta(0, "{}"), OverloadError("busy", status=529)],
        [UsageError("our own mistake")],
    ],
)
def test_a_turn_is_not_continued_elsewhere_after_part_of_a_reply_or_for_our_own_mistakes(
    last: list[ScriptLine],
) -> None:
    async def main() -> None:
        pair = Pair([calls(("look", {})), last], [says("never")])
        async with pair.chat(pair.router("failover")) as chat:
            answer = await chat.send("go", raises=False)
            assert answer.finish == "error"
            assert pair.b.requests == []

    asyncio.run(main())


def test_a_turn_is_continued_as_often_as_there_are_members_and_exchanges_and_no_more() -> None:
    async def main() -> None:
        busy: list[ScriptLine] = [OverloadError("busy", status=529)]
        pair = Pair([calls(("look", {})), busy, busy], [calls(("look", {})), busy, busy])
        async with pair.chat(pair.router("failover")) as chat:
            answer = await chat.send("go", raises=False)
            assert answer.finish == "error"
            assert (len(pair.a.requests), len(pair.b.requests)) == (2, 2)
        pair = Pair([calls(("look", {})), busy], [calls(("look", {})), says("never")])
        async with pair.chat(pair.router("failover"), max_turns=2) as chat:
            answer = await chat.send("go")
            assert (answer.finish, answer.exchanges) == ("max_turns", 2)
            assert len(pair.b.requests) == 1

    asyncio.run(main())


def test_a_passing_failure_is_tried_again_after_a_pause_and_told() -> None:
    async def main() -> None:
        limit = RateLimitError("slow down", status=429, retry_after=0.05)
        pair = Pair([[limit], says("there")], [])
        async with pair.chat() as chat:
            events = await hear(chat, "go")
            (retrying,) = [event for event in events if type(event) is Retrying]
            assert retrying.after >= 0.05
            assert chat.answer is not None
            assert chat.answer.text == "there"

    asyncio.run(main())


def test_cancelling_ends_the_pause_before_another_attempt() -> None:
    async def main() -> None:
        pair = Pair([[RateLimitError("slow down", status=429, retry_after=20)]], [])
        async with pair.chat() as chat:
            asyncio.get_running_loop().call_later(0.05, chat.cancel)
            answer = await asyncio.wait_for(chat.send("go"), 2)
            assert (answer.finish, answer.error) == ("cancelled", None)

    asyncio.run(main())


def test_a_conversation_that_is_too_long_for_the_model_is_shortened_once_and_asked_again() -> None:
    async def main() -> None:
        long = [says("word " * 400) for _ in range(4)]
        too_long: list[ScriptLine] = [ContextLengthError("prompt is too long", status=400)]
        pair = Pair([*long, too_long, says("a summary of it all"), says("short now")], [])
        async with pair.chat() as chat:
            for n in range(4):
                await chat.send(f"tell {n}")
            events = await hear(chat, "the last question")
            (shorter,) = [event for event in events if type(event) is Compaction]
            assert (shorter.tokens_after or 0) < (shorter.tokens_before or 0)
            assert chat.answer is not None
            assert chat.answer.text == "short now"
            asked = pair.a.requests[-1].conversation
            assert asked.messages[-1].text == "the last question"
            assert sum(len(message.text) for message in asked.messages) < 4000

    asyncio.run(main())


def test_what_stays_too_long_is_an_error_and_not_a_loop() -> None:
    async def main() -> None:
        too_long: list[ScriptLine] = [ContextLengthError("prompt is too long", status=400)]
        pair = Pair([says("hm " * 500), too_long, says("summary"), too_long], [])
        async with pair.chat() as chat:
            await chat.send("tell")
            answer = await chat.send("more", raises=False)
            assert isinstance(answer.error, ContextLengthError)
            assert len(pair.a.requests) <= 4

    asyncio.run(main())


def test_a_conversation_is_shortened_before_it_fills_the_window_by_the_model_that_knows_it() -> None:
    async def main() -> None:
        pair = Pair([*[says("word " * 300) for _ in range(4)], says("in short")], [says("I see")])
        async with pair.chat(compaction=CompactionSettings(strategy="summarise")) as chat:
            for n in range(4):
                await chat.send(f"tell {n}")
            await chat.switch(Route(provider="b", model="m", context=900))
            events = await hear(chat, "go on")
            assert [event.why for event in events if type(event) is Compaction] == ["full"]
            assert chat.answer is not None
            assert chat.answer.text == "I see"
            # The old model told it in short; the new one was asked one thing only.
            assert len(pair.a.requests) == 5
            assert pair.a.requests[-1].tools == ()
            assert len(pair.b.requests) == 1
            assert "in short" in str(pair.b.requests[0].conversation)
            compacted = [
                record.entry
                for record in await chat.journal.store.read(chat.id)
                if isinstance(record.entry, Compacted)
            ]
            assert len(compacted) == 1

    asyncio.run(main())


def test_a_summary_that_fails_falls_back_and_is_told() -> None:
    async def main() -> None:
        pair = Pair(
            [*[says("word " * 300) for _ in range(4)], [InvalidRequestError("no", status=400)]],
            [[InvalidRequestError("no", status=400)], says("ok")],
        )
        async with pair.chat() as chat:
            for n in range(4):
                await chat.send(f"tell {n}")
            await chat.switch(Route(provider="b", model="m", context=900))
            events = await hear(chat, "go on")
            assert [event.strategy for event in events if type(event) is Compaction] == ["truncate"]
            assert "compaction_fell_back" in [event.code for event in events if type(event) is Warned]
            assert chat.answer is not None
            assert chat.answer.text == "ok"

    asyncio.run(main())


def test_if_the_old_model_is_down_the_new_one_is_asked_for_the_summary_before_anything_is_cut() -> None:
    async def main() -> None:
        pair = Pair(
            [*[says("word " * 300) for _ in range(4)], [OverloadError("down", status=503)]],
            [says("in short"), says("ok")],
        )
        async with pair.chat() as chat:
            for n in range(4):
                await chat.send(f"tell {n}")
            await chat.switch(Route(provider="b", model="m", context=900))
            events = await hear(chat, "go on")
            assert [event.strategy for event in events if type(event) is Compaction] == ["summarise"]
            assert any("a/m failed: down" in event.message for event in events if type(event) is Warned)
            assert "in short" in chat.conversation.messages[0].text
            assert chat.answer is not None
            assert chat.answer.text == "ok"

    asyncio.run(main())


def test_a_summary_asked_for_by_name_fails_aloud_and_one_that_was_not_says_what_took_its_place() -> None:
    async def main() -> None:
        down: list[ScriptLine] = [OverloadError("down", status=503)]
        pair = Pair([*[says("word " * 300) for _ in range(4)], down, down], [])
        async with pair.chat() as chat:
            for n in range(4):
                await chat.send(f"tell {n}")
            before = chat.conversation
            with pytest.raises(UsageError, match="down") as caught:
                await chat.compact("summarise")
            assert caught.value.code == "no_summary"
            assert chat.conversation == before
            done = await chat.compact()
            assert done is not None
            assert done.strategy == "truncate"
            assert "down" in done.problem

    asyncio.run(main())


def big_result_chat(size: int, **settings: Any) -> tuple[Chat, ScriptedProvider]:
    def read() -> str:
        return "".join(f"line {n} of the file\n" for n in range(size // 20))

    provider = ScriptedProvider([calls(("read", {})), says("done"), says("done"), says("done")], name="a")
    route = Route(provider="a", model="m", context=4096)
    return Chat(route, providers={"a": provider}, tools=[read], **settings), provider


@pytest.mark.requirement("Property 25", "Property 26")
def test_after_a_long_result_the_conversation_is_made_to_fit_before_the_next_request() -> None:
    async def main() -> None:
        chat, provider = big_result_chat(60_000)
        async with chat:
            events = await hear(chat, "go")
            assert [event.why for event in events if type(event) is Compaction] == ["full"]
            assert chat.answer is not None
            assert chat.answer.text == "done"
        assert all(estimate_request(request, family_of("m")) <= 4096 for request in provider.requests)
        assert "line 0 of the file" in str(provider.requests[-1].conversation)
        assert "line 2999 of the file" in str(provider.requests[-1].conversation)

    asyncio.run(main())


@pytest.mark.requirement("Property 25")
def test_a_result_that_nearly_fills_the_window_is_warned_of_once_before_the_next_request() -> None:
    async def main() -> None:
        chat, _ = big_result_chat(11_600, compaction=CompactionSettings(automatic=False))
        async with chat:
            events = await hear(chat, "go")
            kinds = [event.type for event in events]
            assert [event.code for event in events if type(event) is Warned] == ["near_limit"]
            assert kinds.index("tool_call_result") < kinds.index("warning") < kinds.index("text")
            assert chat.answer is not None
            assert chat.answer.finish == "complete"

    asyncio.run(main())


@pytest.mark.requirement("Property 26")
def test_a_request_within_a_turn_that_exceeds_the_limit_is_not_sent() -> None:
    async def main() -> None:
        chat, provider = big_result_chat(60_000, compaction=CompactionSettings(automatic=False))
        async with chat:
            answer = await chat.send("go", raises=False)
            assert answer.error is not None
            assert (answer.error.remedy, answer.finish) == ("shrink", "error")
            assert "exceeds token limit" in answer.error.message
            assert "> 4096 for model m" in answer.error.message
            assert len(provider.requests) == 1
            # The result is kept, and the session can continue with a larger model.
            assert [message.speaker for message in chat.conversation.messages] == ["user", "model", "tool"]
            await chat.switch("a/m")
            assert (await chat.resume()).text == "done"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("context", "windows"),
    [(8192, (4096, 8192)), (4096, (8192, 8192)), (None, (8192, 4096))],
    ids=["the member's window", "the limit for all members", "the smallest window of a member"],
)
def test_the_smallest_limit_holds_within_a_turn(context: int | None, windows: tuple[int, int]) -> None:
    def read() -> str:
        return "word " * 6000

    async def main() -> None:
        pair = Pair([calls(("read", {})), says("too far")], [])
        known = {f"{name}/m": MemberFacts(context=window) for name, window in zip("ab", windows, strict=True)}
        profile = Profile(name="both", members=tuple(known), context=context)

        def facts(route: Route) -> MemberFacts:
            found = known[route.name]
            return found if route.context is None else structs.replace(found, context=route.context)

        async with Chat(
            build_router(profile, facts),
            providers=pair.providers,
            tools=[read],
            compaction=CompactionSettings(automatic=False),
        ) as chat:
            answer = await chat.send("go", raises=False)
            assert answer.error is not None
            assert "> 4096 for model m" in answer.error.message
            assert len(pair.a.requests) == 1

    asyncio.run(main())


def test_compaction_by_hand_can_be_cancelled_and_nothing_is_lost() -> None:
    async def main() -> None:
        pair = Pair([*[says("word " * 300) for _ in range(3)], [Pause(30), Finished("stop")]], [])
        async with pair.chat() as chat:
            for n in range(3):
                await chat.send(f"tell {n}")
            before = chat.conversation
            asyncio.get_running_loop().call_later(0.05, chat.cancel)
            assert await asyncio.wait_for(chat.compact("summarise"), 3) is None
            assert chat.conversation == before

    asyncio.run(main())


def test_a_model_without_tools_is_told_of_them_in_words_and_calls_them_in_words() -> None:
    async def main() -> None:
        refusal = InvalidRequestError("no tools here", status=400, code="tools_unsupported")
        pair = Pair(
            [
                [refusal],
                says("Thought: I should look\nAction: look\nAction Input: {}"),
                says("Thought: I know\nFinal Answer: I saw it"),
            ],
            [says("native again")],
        )
        async with pair.chat() as chat:
            answer = await chat.send("what is there?")
            assert answer.text.strip() == "I saw it"
            assert chat.ledger["c0"].status == "complete"
            assert pair.a.requests[1].tools == ()
            assert "look" in pair.a.requests[1].conversation.system
            assert len(pair.a.requests) == 3
            # One canonical conversation: a model with native calling goes on with it.
            await chat.switch("b/m")
            assert (await chat.send("and?")).text == "native again"
            assert [m.speaker for m in pair.b.requests[0].conversation.messages][:4] == [
                "user",
                "model",
                "tool",
                "model",
            ]

    asyncio.run(main())


@pytest.mark.requirement("Property 33")
def test_an_action_in_bad_json_is_asked_for_again_and_not_for_ever() -> None:
    async def main() -> None:
        refusal = InvalidRequestError("no tools here", status=400, code="tools_unsupported")
        bad = says("Thought: hm\nAction: look\nAction Input: {not json")
        pair = Pair([[refusal], bad, says("Thought: ah\nFinal Answer: fine"), *[bad] * 8], [])
        async with pair.chat() as chat:
            assert (await chat.send("go")).text.strip() == "fine"
            assert len(pair.a.requests) == 3
            note = chat.conversation.messages[2]
            assert "must be valid JSON" in note.text
            assert note in pair.a.requests[2].conversation.messages, "and the model has read it"
            assert note.instruction, "what the user said last is still the user's own prompt"
            answer = await chat.send("again")
            assert answer.finish == "complete"
            assert len(pair.a.requests) <= 8

    asyncio.run(main())


class Counting(ScriptedProvider):
    """Counts tokens, in its own time."""

    def __init__(self, replies: list[list[ScriptLine]], tokens: int, seconds: float = 0.0) -> None:
        super().__init__(replies, name="a")
        self.counted = 0
        self._counted = tokens
        self._seconds = seconds
        self.capabilities = Capabilities(count_tokens=self._count)

    async def _count(self, request: ChatRequest) -> int:
        self.counted += 1
        await asyncio.sleep(self._seconds)
        return self._counted


@pytest.mark.requirement("Property 23")
def test_near_the_limit_a_provider_that_counts_is_asked_and_believed() -> None:
    async def main() -> None:
        provider = Counting([says("word " * 300), says("fine"), says("fine")], tokens=500)
        route = Route(provider="a", model="m", context=1000)
        async with Chat(route, providers={"a": provider}) as chat:
            await chat.send("tell")
            assert provider.counted == 0
            events = await hear(chat, "long " * 600)
            assert provider.counted == 1
            assert not any(type(event) is Compaction for event in events)

    asyncio.run(main())


def test_cancelling_does_not_wait_for_a_count() -> None:
    async def main() -> None:
        provider = Counting([says("fine")], tokens=500, seconds=30)
        route = Route(provider="a", model="m", context=1000)
        async with Chat(route, providers={"a": provider}) as chat:
            asyncio.get_running_loop().call_later(0.05, chat.cancel)
            answer = await asyncio.wait_for(chat.send("long " * 900), 2)
            assert (answer.finish, answer.error) == ("cancelled", None)

    asyncio.run(main())


@pytest.mark.requirement("Property 26")
def test_a_message_that_fits_nowhere_is_refused_and_nothing_is_sent() -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("fine")], name="a")
        route = Route(provider="a", model="m", context=500)
        async with Chat(route, providers={"a": provider}) as chat:
            answer = await chat.send("long " * 3000, raises=False)
            assert answer.error is not None
            assert answer.error.remedy == "shrink"
            assert provider.requests == []
            assert (await chat.send("short")).text == "fine"

    asyncio.run(main())


@pytest.mark.requirement("Property 25")
def test_near_the_limit_there_is_a_warning() -> None:
    async def main() -> None:
        provider = Counting([says("fine")], tokens=950)
        route = Route(provider="a", model="m", context=1000)
        settings = CompactionSettings(automatic=False)
        async with Chat(route, providers={"a": provider}, compaction=settings) as chat:
            events = await hear(chat, "long " * 900)
            assert [event.code for event in events if type(event) is Warned] == ["near_limit"]

    asyncio.run(main())

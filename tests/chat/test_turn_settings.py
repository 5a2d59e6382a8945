"""What is given for one turn holds for that turn, and everything is as before afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue import Budget, Chat, MemoryStore, Options, ProviderRegistry, Route, ScriptedProvider
from segue.chat.turn_settings import TurnOptions
from segue.errors import UsageError
from segue.events import Switch
from segue.providers import calls, says


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def search(word: str) -> str:
    """Search for a word."""
    return word


def _speaker(name: str) -> ScriptedProvider:
    """A provider that says its name."""
    return ScriptedProvider(answer=lambda _: says(name), name=name)


class Pair:
    """A chat with model a, and a model b beside it."""

    def __init__(self, **settings: Any) -> None:
        self.a = ScriptedProvider(answer=lambda _: says("a"), name="a")
        self.b = ScriptedProvider(answer=lambda _: says("b"), name="b")
        self.chat = Chat("a/m", providers={"a": self.a, "b": self.b}, **settings)


def test_another_model_answers_one_turn_and_the_chat_s_own_the_next() -> None:
    async def main() -> None:
        pair = Pair()
        async with pair.chat as chat:
            assert str(await chat.send("1", model="b/m")) == "b"
            assert (chat.model, chat.journal.state.model) == ("a/m", "a/m")  # also if it is resumed from here
            assert str(await chat.send("2")) == "a"
            events = [event async for event in chat.stream("3", model=Route(provider="b", model="n"))]
            switches = [(event.previous, event.model) for event in events if type(event) is Switch]
            assert switches == [("a/m", "b/n"), ("b/n", "a/m")]

    asyncio.run(main())


def test_a_switch_during_such_a_turn_wins_over_the_way_back() -> None:
    async def main() -> None:
        pair = Pair()
        async with pair.chat as chat:
            async for event in chat.stream("1", model="b/m"):
                if event.type == "text":
                    await chat.switch("b/other")
            assert chat.model == "b/other"

    asyncio.run(main())


def test_a_model_that_nobody_offers_is_refused_and_the_chat_stays_as_it_was() -> None:
    async def main() -> None:
        pair = Pair()
        async with pair.chat as chat:
            for name in ("nobody/m", "nonsense"):
                with pytest.raises(UsageError):
                    await chat.send("1", model=name)
            assert (chat.model, chat.busy, len(chat.conversation.messages)) == ("a/m", False, 0)
            assert str(await chat.send("2")) == "a"

    asyncio.run(main())


def test_other_tools_are_offered_in_one_turn() -> None:
    async def main() -> None:
        pair = Pair(tools=[weather])
        async with pair.chat as chat:
            pair.a.add(calls(("search", {"word": "x"})), says("found"))
            assert str(await chat.send("1", tools=[search])) == "found"
            await chat.send("2", tools=[])
            await chat.send("3")
            offered = [[tool.name for tool in request.tools] for request in pair.a.requests]
            assert offered == [["search"], ["search"], [], ["weather"]]

    asyncio.run(main())


def test_options_of_a_turn_lie_over_those_of_the_chat_and_of_the_route() -> None:
    async def main() -> None:
        route = Route(provider="a", model="m", options=Options(top_p=0.5))
        a = ScriptedProvider(answer=lambda _: says("a"), name="a")
        chat = Chat(route, providers={"a": a}, options=Options(temperature=0.1, seed=1))
        async with chat:
            await chat.send("1", options=Options(temperature=0.9, top_p=0.7))
            await chat.send("2")
            used = [request.options for request in a.requests]
            assert [(one.temperature, one.top_p, one.seed) for one in used] == [(0.9, 0.7, 1), (0.1, 0.5, 1)]

    asyncio.run(main())


def test_a_turn_may_be_shorter_or_longer_than_the_chat_allows() -> None:
    async def main() -> None:
        pair = Pair(tools=[weather], budget=Budget(max_turns=1, max_cost=5))
        async with pair.chat as chat:
            script = calls(("weather", {"city": "Oslo"}))
            pair.a.add(script, says("rain"), script, says("never"))
            assert (await chat.send("1", max_turns=2)).finish == "complete"
            assert (await chat.send("2")).finish == "max_turns"
            with pytest.raises(UsageError, match="0 exchanges"):
                await chat.send("3", max_turns=0)

    asyncio.run(main())


@pytest.mark.parametrize("turn", [{"model": "b/m"}, {"tools": [weather]}, {"max_turns": 3}])
def test_resuming_and_blocking_take_the_same(turn: TurnOptions) -> None:
    pair = Pair()
    pair.a.add([UsageError("no")])
    with pair.chat.blocking() as chat:
        chat.send("1", raises=False)
        assert chat.resume(**turn).text in "ab"
        assert [event.type for event in chat.stream("2", **turn)][-1] == "finish"


def test_what_is_named_by_itself_holds_for_one_turn() -> None:
    async def main() -> None:
        pair = Pair(system="Be brief.", options=Options(temperature=0.5, seed=1))
        async with pair.chat as chat:
            await chat.send("1", temperature=0, max_tokens=7, system="Rhyme.", options=Options(top_p=0.1))
            await chat.send("2")
            first, second = pair.a.requests
            assert (first.options.temperature, first.options.max_tokens) == (0, 7)
            assert (first.options.top_p, first.options.seed) == (0.1, 1)
            assert first.conversation.system == "Rhyme."
            assert (second.options.temperature, second.options.max_tokens) == (0.5, None)
            assert second.conversation.system == chat.conversation.system == "Be brief."

    asyncio.run(main())


def test_a_provider_answers_one_turn_with_the_model_that_is_named_or_its_own() -> None:
    async def main() -> None:
        pair = Pair()
        async with pair.chat as chat:
            assert str(await chat.send("1", provider="b")) == "b"
            assert str(await chat.send("2", provider="b", model="vendor/m")) == "b"
            assert [request.model for request in pair.b.requests] == ["default", "vendor/m"]
            assert str(await chat.send("3")) == "a"
            with pytest.raises(UsageError, match="only one can be meant"):
                await chat.send("4", provider="b", model=Route(provider="a", model="m"))

    asyncio.run(main())


@pytest.mark.parametrize("method", ["send", "stream", "resume", "stream_resumed"])
def test_a_keyword_that_nobody_knows_is_refused_with_the_one_that_may_be_meant(method: str) -> None:
    async def main() -> None:
        content = ("Hello",) if method in ("send", "stream") else ()
        async with Pair().chat as chat:

            async def call(**given: Any) -> None:
                called = getattr(chat, method)(*content, **given)
                if method in ("send", "resume"):
                    await called

            with pytest.raises(
                TypeError, match=rf"Chat.{method}\(\) .* 'max_turn'. Did you mean max_turns\?"
            ):
                await call(max_turn=1)
            with pytest.raises(TypeError, match=r"'xyz'\. Known are: model, tools"):
                await call(xyz=1)

    asyncio.run(main())


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": "0"},
        {"temperature": True},
        {"max_tokens": 1.5},
        {"max_turns": "2"},
        {"system": 3},
        {"provider": None},
        {"options": {"temperature": 1}},
        {"tools": "weather"},
        {"tools": 5},
        {"model": 5},
    ],
)
def test_a_value_of_another_type_is_refused_before_the_turn(given: dict[str, Any]) -> None:
    async def main() -> None:
        pair = Pair()
        async with pair.chat as chat:
            with pytest.raises(UsageError, match=r"Expected .*, not ") as caught:
                await chat.send("1", **given)
            assert caught.value.path == next(iter(given))
            assert (chat.busy, pair.a.requests) == (False, [])

    asyncio.run(main())


@pytest.mark.requirement("Property 2")
def test_a_chat_that_names_no_provider_asks_the_default_one() -> None:
    async def main() -> None:
        registry = ProviderRegistry()
        for name in ("a", "b"):
            registry.register(_speaker(name))
        registry.set_default("b")
        async with Chat(providers=registry) as chat:
            assert (str(await chat.send("1")), chat.model) == ("b", "b/default")
            assert chat.journal.state.model == "b/default"
        async with Chat("tiny", providers=registry) as chat:
            assert (str(await chat.send("1")), chat.model) == ("b", "b/tiny")
        async with Chat("a/m", providers=registry) as chat:
            assert str(await chat.send("1")) == "a"
        registry.unregister("b")
        with pytest.raises(UsageError, match="names no provider"):
            await Chat(providers=registry).open()

    asyncio.run(main())


def test_a_session_that_is_resumed_keeps_its_model_whatever_the_default_is() -> None:
    async def main() -> None:
        registry, store = ProviderRegistry(), MemoryStore()
        for name in ("a", "b"):
            registry.register(_speaker(name))
        async with Chat("a/m", providers=registry, store=store, session="one") as chat:
            await chat.send("1")
        registry.set_default("b")
        async with Chat(providers=registry, store=store, session="one") as chat:
            assert str(await chat.send("2")) == "a"
        async with Chat(providers=registry, store=store, session="two") as chat:
            assert str(await chat.send("1")) == "b"

    asyncio.run(main())

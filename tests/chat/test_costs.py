"""What a turn has cost: also in replies that nobody saw, in summaries and in what its tools spent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue.chat.chat import Chat
from segue.chat.subagent import subagent_tool
from segue.chat.turn_settings import Budget
from segue.conversation.events import TextDelta, UsageReported
from segue.conversation.usage import Usage
from segue.errors import InvalidRequestError, OverloadError
from segue.events import ChatEvent, Compaction, ToolCallResult, Warned
from segue.providers.adapter import ChatRequest
from segue.providers.models.prices import CATALOG_PRICES, Bill
from segue.providers.scripted import Pause, ScriptedProvider, ScriptLine, calls, says
from segue.routing.route import Route
from segue.sessions.state import replay
from segue.sessions.stores.memory import MemoryStore
from segue.tools.definition import Context
from segue.tools.function_tools import as_tool


@pytest.mark.parametrize("counts", [None, Usage(500), Usage(500, 20)])
def test_what_a_provider_does_not_count_is_estimated_and_marked(counts: Usage | None) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("word " * 100, usage=counts)], name="openai")
        store = MemoryStore()
        async with Chat("openai/gpt-4.1", providers={"openai": provider}, store=store) as chat:
            answer = await chat.send("word " * 500)
            assert answer.usage == chat.usage == await journalled(store, chat.id)
            if counts == Usage(500, 20):
                assert answer.usage == counts
                return
            assert answer.usage.estimated
            assert 400 <= (answer.usage.input_tokens or 0) <= 700
            assert 80 <= (answer.usage.output_tokens or 0) <= 150
            assert answer.cost == pytest.approx(CATALOG_PRICES.cost_of(answer.usage, "openai", "gpt-4.1"))

    asyncio.run(main())


def test_a_budget_holds_against_a_provider_that_does_not_count() -> None:
    async def main() -> None:
        provider = ScriptedProvider([calls(("look", {})), says("more")], name="openai")
        budget = Budget(max_tokens=300)
        async with Chat(
            "openai/gpt-4.1", tools=[look], providers={"openai": provider}, budget=budget
        ) as chat:
            events = await told(chat, "word " * 500)
            assert any(type(event) is Warned and event.code == "over_budget" for event in events)

    asyncio.run(main())


@pytest.mark.parametrize("counts", [None, Usage(500, 1)])
def test_what_came_of_a_cancelled_reply_is_estimated_and_marked(counts: Usage | None) -> None:
    """Providers that count at the beginning of a reply have counted the beginning."""

    async def main() -> None:
        begun: list[ScriptLine] = [] if counts is None else [UsageReported(counts)]
        provider = ScriptedProvider([[*begun, TextDelta(0, "word " * 100), Pause(30)]], name="openai")
        store = MemoryStore()
        async with Chat("openai/gpt-4.1", providers={"openai": provider}, store=store) as chat:
            async for event in chat.stream("word " * 500):
                if event.type == "text":
                    chat.cancel()
            assert chat.answer is not None
            usage = chat.answer.usage
            assert usage == chat.usage == await journalled(store, chat.id)
            assert usage.estimated
            assert 400 <= (usage.input_tokens or 0) <= 700
            assert 80 <= (usage.output_tokens or 0) <= 150

    asyncio.run(main())


async def told(chat: Chat, said: str = "go") -> list[ChatEvent]:
    return [event async for event in chat.stream(said)]


async def journalled(store: MemoryStore, session: str) -> Usage:
    return replay(await store.read(session)).usage


def test_a_failed_attempt_that_is_tried_again_is_counted() -> None:
    async def main() -> None:
        broken: list[ScriptLine] = [
            UsageReported(Usage(100, 1)),
            OverloadError("busy", status=529, retry_after=0.0),
        ]
        provider = ScriptedProvider([broken, says("hi", usage=Usage(100, 5))])
        store = MemoryStore()
        async with Chat("scripted/m", providers={"scripted": provider}, store=store) as chat:
            answer = await chat.send("hello")
            assert answer.finish == "complete"
            assert answer.usage == chat.usage == await journalled(store, chat.id)
            assert answer.usage == Usage(200, 6, estimated=True), (
                "the provider has not counted the end of the first one"
            )
            assert [message.speaker for message in chat.conversation.messages] == ["user", "model"]

    asyncio.run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_a_summary_is_counted_whether_it_helps_or_not(fails: bool) -> None:
    async def main() -> None:
        def answer(request: ChatRequest) -> list[ScriptLine]:
            asked = request.conversation.messages[-1].text
            if "Sum up the conversation" not in asked:
                return says("word " * 300, usage=Usage(1, 1))
            if fails:
                return [UsageReported(Usage(1000, 0)), InvalidRequestError("no", status=400)]
            return says("short", usage=Usage(1000, 10))

        provider = ScriptedProvider(answer=answer)
        store = MemoryStore()
        async with Chat("scripted/m", providers={"scripted": provider}, store=store) as chat:
            for _ in range(4):
                await chat.send("tell me more")
            compaction = await chat.compact()
            assert type(compaction) is Compaction
            assert compaction.usage == (Usage(1000, 0, estimated=True) if fails else Usage(1000, 10))
            assert chat.usage == await journalled(store, chat.id) == Usage(4, 4).plus(compaction.usage)

    asyncio.run(main())


def family(parent_budget: Budget | None = None, **child: Any) -> tuple[Chat, MemoryStore]:
    small = ScriptedProvider(
        [calls(("look", {}), usage=Usage(40, 2)), says("a cat", usage=Usage(50, 3))], name="small"
    )
    big = ScriptedProvider(
        [calls(("explore", {"task": "x"}), usage=Usage(10, 1)), says("thanks", usage=Usage(20, 1))],
        name="big",
    )
    store = MemoryStore()
    explore = subagent_tool("explore", "Looks around.", "small/m", **child)
    providers = {"small": small, "big": big}
    chat = Chat("big/m", tools=[explore], store=store, providers=providers, budget=parent_budget)
    return chat, store


def look() -> str:
    return "seen"


def test_what_a_subagent_costs_is_its_parents_too() -> None:
    async def main() -> None:
        chat, store = family(tools=[look])
        async with chat:
            events = await told(chat)
            (ended,) = [event for event in events if type(event) is ToolCallResult]
            assert ended.usage == Usage(90, 5)
            assert chat.answer is not None
            assert chat.answer.usage == chat.usage == Usage(120, 7)
            assert await journalled(store, chat.id) == Usage(120, 7)
            (child,) = await store.find(parent=chat.id)
            assert await journalled(store, child.id) == Usage(90, 5)

    asyncio.run(main())


def test_a_budget_holds_for_a_turn_and_its_subagents_together() -> None:
    async def main() -> None:
        chat, _ = family(Budget(max_tokens=50), tools=[look])
        async with chat:
            events = await told(chat)
            assert any(type(event) is Warned and event.code == "over_budget" for event in events)
            assert chat.answer is not None
            assert chat.answer.finish == "cancelled"

    asyncio.run(main())


def test_a_cancelled_subagent_has_cost_what_it_did_until_then() -> None:
    async def main() -> None:
        async def linger() -> None:
            await asyncio.sleep(30)

        small = ScriptedProvider([calls(("linger", {}), usage=Usage(40, 2))], name="small")
        big = ScriptedProvider([calls(("explore", {"task": "x"}), usage=Usage(10, 1))], name="big")
        explore = subagent_tool("explore", "Looks around.", "small/m", tools=[linger])
        async with Chat("big/m", tools=[explore], providers={"small": small, "big": big}) as chat:
            async for event in chat.stream("go"):
                if event.type == "tool_progress":
                    chat.cancel()
            assert chat.usage == Usage(50, 3)

    asyncio.run(main())


def test_any_tool_may_tell_what_it_spent() -> None:
    async def main() -> None:
        async def translate(text: str, context: Context) -> str:
            context.spend(Usage(7, 3), 0.5)
            return text.upper()

        asked = calls(("translate", {"text": "a"}), usage=Usage(0, 0))
        provider = ScriptedProvider([asked, says("done", usage=Usage(0, 0))])
        async with Chat("scripted/m", tools=[as_tool(translate)], providers={"scripted": provider}) as chat:
            answer = await chat.send("go")
            assert (answer.usage, answer.cost, chat.cost) == (Usage(7, 3), 0.5, 0.5)

    asyncio.run(main())


def test_a_summary_that_is_cancelled_is_counted_and_nothing_is_lost() -> None:
    async def main() -> None:
        def answer(request: ChatRequest) -> list[ScriptLine]:
            if "Sum up the conversation" in request.conversation.messages[-1].text:
                return [UsageReported(Usage(1000, 0)), Pause(30)]
            return says("word " * 300)

        provider = ScriptedProvider(answer=answer)
        async with Chat("scripted/m", providers={"scripted": provider}) as chat:
            for _ in range(3):
                await chat.send("tell me more")
            before, before_it = chat.conversation, chat.usage.input_tokens or 0
            compacting = asyncio.create_task(chat.compact())
            await asyncio.sleep(0.05)
            chat.cancel()
            assert await compacting is None
            assert chat.conversation == before
            assert chat.usage.input_tokens == 1000 + before_it
            assert chat.usage.estimated

    asyncio.run(main())


def test_a_prompt_that_is_cancelled_during_an_automatic_summary_is_kept() -> None:
    async def main() -> None:
        def answer(request: ChatRequest) -> list[ScriptLine]:
            if "Sum up the conversation" in request.conversation.messages[-1].text:
                return [Pause(30)]
            return says("word " * 300)

        provider = ScriptedProvider(answer=answer)
        async with Chat("scripted/m", providers={"scripted": provider}) as chat:
            for _ in range(3):
                await chat.send("tell me more")
            await chat.switch(Route(provider="scripted", model="m", context=900))
            sending = asyncio.create_task(chat.send("and this is important"))
            await asyncio.sleep(0.05)
            chat.cancel()
            answered = await sending
            assert (answered.finish, answered.error) == ("cancelled", None)
            assert chat.conversation.messages[-1].text == "and this is important"
            assert len(chat.conversation.messages) == 7

    asyncio.run(main())


def test_a_session_that_is_resumed_with_a_smaller_model_is_summed_up_by_the_one_that_knows_it() -> None:
    async def main() -> None:
        def answer(request: ChatRequest) -> list[ScriptLine]:
            summing = "Sum up the conversation" in request.conversation.messages[-1].text
            return says("short", usage=Usage(9, 9)) if summing else says("word " * 300)

        store = MemoryStore()
        big = ScriptedProvider(answer=answer, name="big")
        small = ScriptedProvider([says("fine", usage=Usage(1, 1))], name="small")
        providers = {"big": big, "small": small}
        async with Chat("big/m", providers=providers, store=store, session="s") as chat:
            for _ in range(4):
                await chat.send("tell me more")
        route = Route(provider="small", model="m", context=900)
        async with Chat(route, providers=providers, store=store, session="s") as chat:
            answered = await chat.send("and now?")
            assert (answered.text, answered.usage) == ("fine", Usage(10, 10))
            assert (len(big.requests), len(small.requests)) == (5, 1)

    asyncio.run(main())


@pytest.mark.parametrize("tier", [None, "unheard-of"])
def test_a_budget_of_dollars_holds_for_replies_of_a_tier_that_nobody_knows_the_price_of(
    tier: str | None,
) -> None:
    async def main() -> None:
        provider = ScriptedProvider(
            [calls(("look", {}), usage=Usage(1_000_000, 1, tier=tier)), says("more")], name="openai"
        )
        budget = Budget(max_cost=1.0)
        chat = Chat("openai/gpt-4.1", tools=[look], providers={"openai": provider}, budget=budget)
        async with chat:
            events = await told(chat)
            assert any(type(event) is Warned and event.code == "over_budget" for event in events)
            assert chat.answer is not None
            assert (chat.answer.cost is None) == (tier is not None)

    asyncio.run(main())


UNKNOWN_TIER = Usage(1_000_000, 0, tier="scale")
"""Of a tier without a price: it costs at least what the tokens do, 1.25 dollars."""


@pytest.mark.parametrize(("usage", "least"), [(UNKNOWN_TIER, 1.25), (Usage(), 0.0001)])
def test_a_budget_counts_at_least_what_is_known_of_a_summary(usage: Usage, least: float) -> None:
    """Also where its price is not known, and where nobody counted."""

    async def main() -> None:
        def answer(request: ChatRequest) -> list[ScriptLine]:
            asked = request.conversation.messages[-1]
            if "Sum up the conversation" in asked.text:
                return says("short", usage=usage)
            if asked.text == "and look":
                return calls(("look", {}))
            return says("word " * 300)

        provider = ScriptedProvider(answer=answer, name="openai")
        budget = Budget(max_cost=least)
        async with Chat("openai/gpt-5", tools=[look], providers={"openai": provider}, budget=budget) as chat:
            for _ in range(3):
                await chat.send("tell me more")
            await chat.switch(Route(provider="openai", model="gpt-5", context=900))
            events = await told(chat, "and look")
            (compaction,) = [event for event in events if type(event) is Compaction]
            assert (compaction.cost is None) == (usage is UNKNOWN_TIER)
            assert compaction.usage.estimated == (usage == Usage())
            assert compaction.at_least >= least
            assert any(type(event) is Warned and event.code == "over_budget" for event in events)
            assert chat.answer is not None
            assert chat.answer.at_least >= compaction.at_least

    asyncio.run(main())


def test_a_budget_counts_at_least_what_is_known_of_a_subagent() -> None:
    async def main() -> None:
        small = ScriptedProvider([says("a cat", usage=UNKNOWN_TIER)], name="openai")
        big = ScriptedProvider([calls(("explore", {"task": "x"})), says("thanks")], name="big")
        explore = subagent_tool("explore", "Looks around.", "openai/gpt-5")
        budget = Budget(max_cost=1.0)
        async with Chat(
            "big/m", tools=[explore], providers={"openai": small, "big": big}, budget=budget
        ) as chat:
            events = await told(chat)
            assert any(type(event) is Warned and event.code == "over_budget" for event in events)
            assert chat.answer is not None
            assert (chat.answer.cost, chat.answer.at_least) == (None, 1.25)

    asyncio.run(main())


def test_a_bill_is_at_least_the_sum_of_what_is_known() -> None:
    bill = Bill()
    bill.add(Usage(1, 1), 0.5, 0.8)
    bill.add(Usage(1, 1), None, 0.1)
    assert (bill.cost, bill.at_least) == (0.5, 0.9)

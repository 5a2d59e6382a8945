"""Requests are counted before they are sent, and those that are too long are not sent."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.chat.chat import Chat
from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.events import Event, Finished
from segue.conversation.message import Conversation, model, tool, user
from segue.conversation.tools import ToolSpec
from segue.dialects.registry import DIALECTS
from segue.errors import ContextLengthError, OverloadError
from segue.providers.adapter import ChatRequest, ProviderAdapter
from segue.providers.capabilities import Capabilities, ModelInfo
from segue.providers.scripted import ScriptedProvider, says
from segue.providers.token_counts import LimitCheck, TokenCounter, characters_of, fallback_tokens
from segue.routing.route import Route
from strategies.examples import AT_LEAST_100
from strategies.histories import conversations

UNKNOWN = "a-model-that-nobody-knows"


class Silent(ProviderAdapter):
    """Can chat and nothing else."""

    name = "silent"

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[Event]:
        yield Finished("stop")


def saying(*texts: str, system: str = "", name: str = UNKNOWN) -> ChatRequest:
    return ChatRequest(model=name, conversation=Conversation(tuple(map(user, texts)), system=system))


def estimate(provider: ProviderAdapter, request: ChatRequest) -> int:
    return asyncio.run(TokenCounter(provider).estimate_tokens(request))


@AT_LEAST_100
@given(conversation=conversations(DIALECTS["openai_chat"].rules))
@pytest.mark.requirement("Property 22")
def test_an_estimate_is_a_positive_whole_number(conversation: Conversation) -> None:
    tokens = estimate(Silent(), ChatRequest(model=UNKNOWN, conversation=conversation))
    assert type(tokens) is int
    assert tokens >= 1


@AT_LEAST_100
@given(counted=st.integers(1, 10**9))
@pytest.mark.requirement("Property 23")
def test_the_providers_own_counter_is_preferred(counted: int) -> None:
    assert estimate(ScriptedProvider(tokens=counted), saying("hi")) == counted


def test_a_counter_that_fails_does_not_keep_anyone_from_asking() -> None:
    def fail(_: ChatRequest) -> int:
        raise OverloadError("Not now.")

    assert estimate(ScriptedProvider(tokens=fail), saying("four", "four")) == 2


@AT_LEAST_100
@given(texts=st.lists(st.text(), min_size=1), system=st.text())
@pytest.mark.requirement("Property 24")
def test_otherwise_four_characters_of_all_texts_together_are_a_token(texts: list[str], system: str) -> None:
    characters = len(system) + sum(map(len, texts))
    assert estimate(Silent(), saying(*texts, system=system)) == max(1, math.ceil(characters / 4))


@AT_LEAST_100
@given(text=st.text())
@pytest.mark.requirement("Property 24")
def test_the_rule_of_thumb_gives_nothing_for_nothing(text: str) -> None:
    assert fallback_tokens(len(text)) == math.ceil(len(text) / 4)


def test_calls_results_and_tools_are_said_too() -> None:
    call = ToolCall("c0", "look", {"what": "x"})
    plain = saying("hi")
    talk = Conversation((user("hi"), model(call), tool(ToolResult("c0", "look", output={"found": [1, 2]}))))
    told = ChatRequest(model=UNKNOWN, conversation=talk, tools=(ToolSpec("look", "Looks."),))
    assert characters_of(told) == characters_of(plain) + len('look{"what":"x"}{"found":[1,2]}lookLooks.')


@pytest.mark.parametrize(
    ("tokens", "status"),
    [(1, "within"), (899, "within"), (900, "warning"), (1000, "warning"), (1001, "over")],
)
@pytest.mark.requirement("Property 25")
def test_from_nine_tenths_of_the_limit_on_there_is_a_warning(tokens: int, status: str) -> None:
    check = TokenCounter(Silent(), limits={"m": 1000}).check_limit("m", tokens)
    assert check.status == status
    assert check.within_limit is (status != "over")
    assert check.is_warning is (status == "warning")
    assert check.limit == 1000


@AT_LEAST_100
@given(limit=st.integers(1, 10**7), tokens=st.integers(0, 2 * 10**7), threshold=st.floats(0.01, 1.0))
@pytest.mark.requirement("Property 25")
def test_the_threshold_can_be_set(limit: int, tokens: int, threshold: float) -> None:
    check = TokenCounter(Silent(), limits={"m": limit}, warning_threshold=threshold).check_limit("m", tokens)
    assert check.within_limit is (tokens <= limit)
    assert check.is_warning is (limit * threshold <= tokens <= limit)


@pytest.mark.requirement("Property 26")
def test_a_request_above_the_limit_is_refused_before_anything_is_sent() -> None:
    provider = ScriptedProvider(tokens=5000)
    counter = TokenCounter(provider)
    with pytest.raises(ContextLengthError) as caught:
        asyncio.run(counter.admit(saying("hi")))
    assert str(caught.value) == f"Request exceeds token limit: 5000 > 4096 for model {UNKNOWN}"
    assert caught.value.remedy == "shrink"
    assert provider.requests == []


@AT_LEAST_100
@given(limit=st.integers(1, 10**6), tokens=st.integers(1, 2 * 10**6))
@pytest.mark.requirement("Property 26")
def test_exactly_what_is_above_the_limit_is_refused(limit: int, tokens: int) -> None:
    counter = TokenCounter(ScriptedProvider(tokens=tokens), limits={UNKNOWN: limit})
    if tokens > limit:
        with pytest.raises(ContextLengthError, match=f"{tokens} > {limit} for model"):
            asyncio.run(counter.admit(saying("hi")))
    else:
        assert asyncio.run(counter.admit(saying("hi"))) == LimitCheck(UNKNOWN, tokens, limit)


def test_the_limit_is_the_configured_one_else_the_providers_else_the_known_one_else_the_default() -> None:
    listing = ScriptedProvider(models=[ModelInfo(id="listed", context=7000), ModelInfo(id="gpt-4.1")])

    def limit(name: str, **settings: int) -> int:
        return asyncio.run(TokenCounter(listing, limits=settings).limit_of(name))

    assert limit("listed", listed=123) == 123
    assert limit("listed") == 7000
    assert limit(UNKNOWN) == 4096
    assert asyncio.run(TokenCounter(listing, default_limit=9).limit_of(UNKNOWN)) == 9
    assert limit("claude-sonnet-4-6") == 1_000_000


class Showing(Silent):
    """Tells of its models, or fails to."""

    def __init__(self, context: int | None) -> None:
        self.asked = 0
        self._context = context
        self.capabilities = Capabilities(show_model=self._show_model)

    async def _show_model(self, name: str) -> ModelInfo:
        self.asked += 1
        if self._context is None:
            raise OverloadError("Not now.")
        return ModelInfo(id=name, context=self._context)


def test_a_provider_is_asked_about_a_model_once_and_may_fail() -> None:
    async def main(provider: Showing) -> tuple[int, int]:
        counter = TokenCounter(provider)
        await counter.limit_of(UNKNOWN)
        return await counter.limit_of(UNKNOWN), provider.asked

    assert asyncio.run(main(Showing(32_000))) == (32_000, 1)
    assert asyncio.run(main(Showing(None))) == (4096, 1)


@pytest.mark.requirement("Property 26")
def test_a_chat_is_refused_in_the_same_words_and_nothing_is_sent() -> None:
    provider = ScriptedProvider([says("never said")])

    async def main() -> str:
        route = Route(provider="scripted", model="tiny", context=50)
        async with Chat(route, providers={"scripted": provider}) as chat:
            return str((await chat.send("word " * 400, raises=False)).error)

    told = asyncio.run(main())
    assert re.fullmatch(r"Request exceeds token limit: \d+ > 50 for model tiny", told), told
    assert provider.requests == []

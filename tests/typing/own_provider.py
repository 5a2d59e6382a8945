"""A provider of one's own: two members, and the abilities that the small protocols describe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import assert_type

from segue import Chat, Origin
from segue.errors import OverloadError
from segue.providers import (
    ChatRequest,
    Event,
    Failed,
    Finished,
    ModelInfo,
    ProviderAdapter,
    ProviderRegistry,
    Reply,
    ScriptedProvider,
    TextDelta,
    calls,
    fold,
    says,
)
from segue.testing import Report, check_provider


class Echo(ProviderAdapter):
    """Answers with what it was asked."""

    name = "echo"

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[Event]:
        if not request.conversation.messages:
            yield Failed(OverloadError("Nothing to echo.", status=529))
            return
        yield TextDelta(0, request.conversation.messages[-1].text)
        yield Finished("stop")

    async def list_models(self, *, refresh: bool = False) -> list[ModelInfo]:
        return [ModelInfo(id="any")]


async def check() -> None:
    assert_type(await check_provider(Echo, model="any"), Report)


async def read(request: ChatRequest) -> Reply:
    events = [event async for event in Echo().chat_stream(request)]
    return fold(events, Origin("echo", "echo", "", request.model))


registry = ProviderRegistry()
registry.register(Echo())
Chat("echo/any", providers=registry)
Chat("echo/any", providers={"echo": Echo()})
ScriptedProvider([says("Hello"), calls(("add", {"a": 1}))], name="scripted")

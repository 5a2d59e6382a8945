"""A provider of one's own: two members, and its capabilities."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import assert_type

from segue import Chat, Origin
from segue.errors import OverloadError
from segue.providers import (
    Capabilities,
    ChatRequest,
    Failed,
    Finished,
    ModelInfo,
    ProviderAdapter,
    ProviderRegistry,
    Reply,
    RequestSent,
    ScriptedProvider,
    StreamEvent,
    TextDelta,
    calls,
    fold_stream,
    says,
)
from segue.testing import Report, check_provider


class Echo(ProviderAdapter):
    """Answers with what it was asked."""

    name = "echo"

    def __init__(self) -> None:
        self.capabilities = Capabilities(list_models=self.list_models)

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        if not request.conversation.messages:
            yield Failed(OverloadError("Nothing to echo.", status=529))
            return
        yield RequestSent(origin=Origin("echo", self.name, "", request.model))
        yield TextDelta(0, request.conversation.messages[-1].text)
        yield Finished("stop")

    async def list_models(self, *, refresh: bool = False) -> list[ModelInfo]:
        return [ModelInfo(id="any")]


async def check() -> None:
    assert_type(await check_provider(Echo, model="any"), Report)


async def read(request: ChatRequest) -> Reply:
    return fold_stream([event async for event in Echo().chat_stream(request)])


async def count(provider: ProviderAdapter, request: ChatRequest) -> int | None:
    count_tokens = provider.capabilities.count_tokens
    return None if count_tokens is None else await count_tokens(request)


registry = ProviderRegistry()
registry.register(Echo())
Chat("echo/any", providers=registry)
Chat("echo/any", providers={"echo": Echo()})
ScriptedProvider([says("Hello"), calls(("add", {"a": 1}))], name="scripted")

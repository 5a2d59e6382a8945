"""Endpoints to ask: emulators on this machine over real HTTP, and places that say what they are told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from segue.dialects.registry import DIALECTS
from segue.emulators.server import Served
from segue.providers.endpoint import Endpoint
from segue.transports.http import HttpTransport
from segue.transports.transport import Transport, WireRequest, WireResponse

T = TypeVar("T")

PATHS: Mapping[str, str] = {
    "openai_chat": "openai/v1",
    "openai_responses": "openai/v1",
    "anthropic": "anthropic",
    "gemini": "gemini/v1beta",
    "mistral": "mistral/v1",
    "ollama": "ollama",
    "ollama_v1": "ollama/v1",
    "kimi": "kimi/v1",
    "deepseek": "deepseek",
    "converse": "bedrock",
}
KEYS: Mapping[str, str] = {
    "authorization": "Bearer sk-emulated-0123456789",
    "x-api-key": "sk-emulated-0123456789",
    "x-goog-api-key": "sk-emulated-0123456789",
    "anthropic-version": "2023-06-01",
}


def endpoint_at(base_url: str, dialect: str, provider: str = "") -> Endpoint:
    return Endpoint(
        provider=provider or dialect.partition("_")[0],
        dialect=DIALECTS[dialect],
        base_url=base_url,
        headers=lambda: KEYS,
        transport=HttpTransport(),
    )


def emulated(served: Served, dialect: str) -> Endpoint:
    return endpoint_at(f"{served.base_url}/{PATHS[dialect]}", dialect)


async def closing(endpoint: Endpoint, use: Callable[[Endpoint], Awaitable[T]]) -> T:
    """Use an endpoint and close its connections."""
    try:
        return await use(endpoint)
    finally:
        transport: Any = endpoint.transport
        await transport.close()


class Said:
    """A whole answer."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def portions(self) -> AsyncIterator[bytes]:
        yield self._body

    async def read(self) -> bytes:
        return self._body


def saying(body: bytes) -> Transport:
    """A transport that brings the same answer to whatever is asked."""

    @asynccontextmanager
    async def answer() -> AsyncIterator[WireResponse]:
        yield Said(body)

    def transport(request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        del request
        return answer()

    return transport

"""Every wire at its emulator: what the tests of providers ask."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from segue.conversation.events import Failed, Finished
from segue.conversation.message import Conversation, user
from segue.conversation.tools import ToolSpec
from segue.emulators.model.model_reply import Reply
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.server import Served
from segue.errors import SegueError
from segue.providers.adapter import ChatRequest, RequestSent, StreamEvent
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.factory import connect
from segue.providers.provider import Provider
from segue.transports.transport import Timeouts

KEY = "a-key-nobody-may-see"
WEATHER = ToolSpec(
    "get_weather",
    "The weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


class Place(NamedTuple):
    """A provider, what its base URL adds to its emulator's, and a model."""

    name: str
    path: str
    model: str

    def __str__(self) -> str:
        return f"{self.name}-{self.model}"


PLACES = (
    Place("openai", "/v1", "gpt-4.1"),
    Place("openai", "/v1", "gpt-5.5"),
    Place("anthropic", "", "claude-sonnet-4-6"),
    Place("gemini", "/v1beta", "gemini-3.5-flash"),
    Place("mistral", "/v1", "mistral-large-latest"),
    Place("kimi", "/v1", "kimi-k2.6"),
    Place("deepseek", "", "deepseek-v4-flash"),
    Place("ollama", "", "qwen3"),
    Place("bedrock", "", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
)


_VERTEX = "/v1/projects/p/locations/global/publishers"
CLOUDS = {
    "azure-openai": ("azure", "/openai/v1"),
    "azure-anthropic": ("azure", "/anthropic"),
    "vertex": ("vertex", f"{_VERTEX}/google"),
    "vertex-anthropic": ("vertex", f"{_VERTEX}/anthropic"),
    "bedrock-invoke": ("bedrock", ""),
    "bedrock-mantle": ("bedrock-mantle", ""),
    "claude-aws": ("claude-aws", ""),
}
"""Clouds that serve the wires of others → their emulator, and the path there."""


def mount_of(name: str) -> str:
    """The emulator of a provider."""
    return CLOUDS[name][0] if name in CLOUDS else name


def provider_at(served: Served, place: Place, timeouts: Timeouts = Timeouts()) -> Provider:  # noqa: B008
    config = ProviderConfig(
        base_url=served.url(mount_of(place.name)) + place.path,
        api_key=Secret(KEY),
        timeouts=timeouts,
        workspace="wrkspc_01",
    )
    return connect(place.name, config, environ={}, keyring=False)


def asking(place: Place, text: str = "Hello.", **fields: Any) -> ChatRequest:
    said = fields.pop("conversation", None) or Conversation().append(user(text))
    return ChatRequest(model=place.model, conversation=said, **fields)


def say(served: Served, *replies: Reply) -> None:
    assert isinstance(served.emulator.responder, ScriptedResponder)
    served.emulator.responder.add(*replies)


def events_of(provider: Provider, request: ChatRequest) -> list[StreamEvent]:
    async def main() -> list[StreamEvent]:
        return [event async for event in provider.chat_stream(request)]

    return asyncio.run(main())


def sent_in(events: Sequence[StreamEvent]) -> RequestSent:
    """The request that went out, which a stream begins with."""
    assert type(events[0]) is RequestSent
    return events[0]


def failure_of(provider: Provider, request: ChatRequest) -> SegueError:
    events = events_of(provider, request)
    assert sum(isinstance(event, Finished | Failed) for event in events) == 1
    assert isinstance(events[-1], Failed), events
    return events[-1].error

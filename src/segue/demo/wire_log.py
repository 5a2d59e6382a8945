"""Records what goes over the wire: each request as it was sent, and details of its reply that a chat does not report.

A request is described from its bytes, as the provider reads them, compared with the conversation.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Media, Seal, ToolResult
from segue.conversation.events import Event, Failed, ReasoningDelta, Sealed
from segue.conversation.message import Message
from segue.dialects.registry import DIALECTS
from segue.providers.adapter import ChatRequest, ProviderAdapter, RequestSent, StreamEvent
from segue.providers.capabilities import Capabilities
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from segue.dialects.card import ModelCard
    from segue.errors import SegueError
    from segue.providers.provider import Provider


@final
class SentRequest(Struct, frozen=True):
    """A request of the story: the messages, and what was sent."""

    messages: tuple[Message, ...]
    sent: RequestSent
    bound: bool
    """Whether the target's seals are valid only after the exact prefix they were made for."""


@final
class RequestRepairs(Struct, frozen=True):
    """What was repaired in a request, and what the target gets back."""

    repairs: tuple[Repair, ...]
    closed: int
    """Interrupted calls, which have a synthetic result."""
    converted: tuple[tuple[str, str], ...]
    """Call ids: as issued, and as sent to the target."""
    replayed: tuple[Seal, ...]
    """The target's own seals, which it gets back byte for byte."""


def request_repairs(request: SentRequest) -> RequestRepairs:
    dialect = DIALECTS[request.sent.origin.dialect]
    sent = dialect.decode_request(msgspec.json.decode(request.sent.body)).messages
    own = {seal.payload: seal for seal in _seals(request.messages) if seal.origin == request.sent.origin}
    results = [block for message in request.messages for block in message.blocks if type(block) is ToolResult]
    ids = zip(_ids(request.messages), _ids(sent), strict=True)
    return RequestRepairs(
        repairs=request.sent.repairs,
        closed=sum(result.reason is not None for result in results),
        converted=tuple((issued, sent_id) for issued, sent_id in ids if issued != sent_id),
        replayed=tuple(own[seal.payload] for seal in _seals(sent) if seal.payload in own),
    )


def _ids(messages: Iterable[Message]) -> list[str]:
    return [call.native_id for message in messages for call in message.calls]


def _seals(messages: Iterable[Message]) -> Iterator[Seal]:
    for message in messages:
        for block in message.blocks:
            seal = None if type(block) is Media else getattr(block, "seal", None)
            if seal is not None:
                yield seal


@final
class WireLog:
    """The latest request and reply, of all providers."""

    def __init__(self) -> None:
        self.last: SentRequest | None = None
        self.narrator = ""
        """The model that wrote the last summary."""
        self.error: SegueError | None = None
        self._thought = False
        self._sealed = False

    def request(self, request: SentRequest) -> None:
        self.last, self._thought = request, False

    def event(self, event: Event) -> None:
        if type(event) is ReasoningDelta:
            self._thought = True
        elif type(event) is Sealed and event.block == "reasoning":
            self._sealed, self._thought = not self._thought, False
        elif type(event) is Failed:
            self.error = event.error

    def take_sealed(self) -> bool:
        """Whether there was reasoning without text since the last call of this method."""
        sealed, self._sealed = self._sealed, False
        return sealed


class LoggedProvider(ProviderAdapter):
    """A provider that records its requests and replies, and otherwise is the one it wraps."""

    def __init__(self, provider: Provider, log: WireLog) -> None:
        self.name = provider.name
        self.provider = provider
        self.capabilities = Capabilities(preview=provider.preview)
        self._log = log

    def card(self, model: str) -> ModelCard:
        return self.provider.card(model)

    def takes_schema(self, request: ChatRequest) -> bool:
        return self.provider.takes_schema(request)

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        log = self._log
        # A request for a summary has no tools; its reasoning is not part of the story.
        in_story = bool(request.tools)
        async with aclosing(self.provider.chat_stream(request)) as events:
            async for event in events:
                if not in_story:
                    log.narrator = request.model
                elif type(event) is RequestSent:
                    bound = bool(self.provider.card(request.model).bound_seals)
                    log.request(SentRequest(request.conversation.messages, event, bound))
                else:
                    log.event(event)
                yield event

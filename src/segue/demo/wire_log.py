"""Sees what goes over the wire: each request as it was sent, and what the chat does not tell of its reply.

What is told of a request is read from its bytes, as the other side reads them, and compared with the conversation.
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

    from segue.errors import SegueError
    from segue.providers.provider import Provider


@final
class SentRequest(Struct, frozen=True):
    """A request of the story: what was to be said, and what was sent."""

    messages: tuple[Message, ...]
    sent: RequestSent
    bound: bool
    """Whether the target's seals hold only under the exact prefix they were made under."""


@final
class RequestRepairs(Struct, frozen=True):
    """What it took to make a request sayable, and what of it is the target's own."""

    repairs: tuple[Repair, ...]
    closed: int
    """Calls that were interrupted: nobody but the scheduler gave them a result."""
    respelled: tuple[tuple[str, str], ...]
    """Ids of calls: as their makers gave them, and as the target is told them."""
    replayed: tuple[Seal, ...]
    """What the target sealed itself and now gets back, byte for byte."""


def request_repairs(asked: SentRequest) -> RequestRepairs:
    dialect = DIALECTS[asked.sent.origin.dialect]
    told = dialect.decode_request(msgspec.json.decode(asked.sent.body)).messages
    own = {seal.payload: seal for seal in _seals(asked.messages) if seal.origin == asked.sent.origin}
    results = [block for message in asked.messages for block in message.blocks if type(block) is ToolResult]
    ids = zip(_ids(asked.messages), _ids(told), strict=True)
    return RequestRepairs(
        repairs=asked.sent.repairs,
        closed=sum(result.reason is not None for result in results),
        respelled=tuple((made, spelled) for made, spelled in ids if made != spelled),
        replayed=tuple(own[seal.payload] for seal in _seals(told) if seal.payload in own),
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
    """What was seen of late, at all wires."""

    def __init__(self) -> None:
        self.asked: SentRequest | None = None
        self.narrator = ""
        """The model that was last asked for a summary."""
        self.error: SegueError | None = None
        self._thought = False
        self._sealed = False

    def request(self, asked: SentRequest) -> None:
        self.asked, self._thought = asked, False

    def event(self, event: Event) -> None:
        if type(event) is ReasoningDelta:
            self._thought = True
        elif type(event) is Sealed and event.block == "reasoning":
            self._sealed, self._thought = not self._thought, False
        elif type(event) is Failed:
            self.error = event.error

    def take_sealed(self) -> bool:
        """Whether there was a thought without words since this was last asked."""
        sealed, self._sealed = self._sealed, False
        return sealed


class LoggedProvider(ProviderAdapter):
    """A provider that lets somebody listen, and is otherwise the one behind it."""

    def __init__(self, provider: Provider, log: WireLog) -> None:
        self.name = provider.name
        self.provider = provider
        self.capabilities = Capabilities(preview=provider.preview, card=provider.card)
        self._log = log

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        log = self._log
        # Who is asked to sum up is offered no tools; what it thinks is no part of the story.
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

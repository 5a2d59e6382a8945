"""Replies of a model that gets its tools in words: what it writes as an action becomes a call.

An action that cannot be read is not passed on: the model is asked again, as in a chat. So a reply is held back until its
final answer begins, or until it is complete.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import Origin, Text
from segue.conversation.events import Event, Failed, Finished, UsageReported, fold
from segue.conversation.message import Message
from segue.conversation.usage import NO_USAGE
from segue.providers.adapter import RequestSent
from segue.transcript.text_tools.react import MAX_CORRECTIONS, ReActScanner, correction
from segue.transcript.text_tools.reader import TextToolReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from segue.conversation.usage import Usage
    from segue.gateway.handovers import Handover
    from segue.providers.adapter import ChatRequest, ProviderAdapter, StreamEvent
    from segue.transcript.text_tools.form import ParsedReply


def portions_of(provider: ProviderAdapter, request: ChatRequest) -> AsyncGenerator[list[StreamEvent], None]:
    """The provider's events, in the portions in which they arrived if it can give them so."""
    portions = provider.capabilities.portions
    return portions(request) if portions is not None else _one_by_one(provider.chat_stream(request))


def split_sent(portion: list[StreamEvent]) -> tuple[RequestSent | None, list[Event]]:
    """The request as it went out, if the portion begins with it, and the events."""
    first = portion[0]
    if type(first) is RequestSent:
        return first, portion[1:]  # type: ignore[return-value]  # only the first is no event
    return None, portion  # type: ignore[return-value]


async def text_tool_portions(
    provider: ProviderAdapter, request: ChatRequest, hand_over: Callable[[ChatRequest, RequestSent], Handover]
) -> AsyncGenerator[list[StreamEvent], None]:
    """The same with calls where the model wrote them in words. What ends a reply comes alone here, too. Each time that the
    model is asked is a request of its own, which is handed over."""
    spent = NO_USAGE
    for corrections in range(MAX_CORRECTIONS + 1):
        reply, handover = _TextToolReply(spent), None
        async with aclosing(portions_of(provider, request)) as portions:
            async for portion in portions:
                sent, events = split_sent(portion)
                if sent is not None:
                    handover = hand_over(request, sent)
                    yield [sent]
                reply.feed(events if handover is None else handover.note(events))
                if reply.answers:
                    for part in reply.take():
                        yield part
        reply.close()
        misread = reply.misread
        if misread is None or corrections == MAX_CORRECTIONS:
            for part in reply.take():
                yield part
            return
        spent = reply.spent
        request = _corrected(request, reply.held, misread)


class _TextToolReply:
    """One reply while it arrives. `spent`: on replies before it that could not be read."""

    def __init__(self, spent: Usage) -> None:
        self.held: list[Event] = []
        self.spent = spent
        """With what this one has cost so far."""
        self._before = spent
        self._own = NO_USAGE
        self._reader = TextToolReader(ReActScanner())

    @property
    def answers(self) -> bool:
        """Whether its final answer has begun: whatever precedes it counts no more."""
        return self._reader.answers

    @property
    def misread(self) -> ParsedReply | None:
        """What is understood of a complete reply with an action that cannot be taken; None if there is no such thing."""
        ended = self.held[-1] if self.held else None
        if type(ended) is not Finished or ended.reason != "stop":
            return None
        parsed = self._reader.parsed
        return parsed if parsed.problem is not None else None

    def feed(self, events: list[Event]) -> None:
        for event in events:
            self.held += self._reader.feed(self._counted(event) if type(event) is UsageReported else event)

    def close(self) -> None:
        self.held += self._reader.close()

    def take(self) -> list[list[StreamEvent]]:
        """What is held, its end apart."""
        held: list[StreamEvent] = [*self.held]
        self.held = []
        if not held or type(held[-1]) not in (Finished, Failed):
            return [held] if held else []
        return [part for part in (held[:-1], held[-1:]) if part]

    def _counted(self, event: UsageReported) -> UsageReported:
        self._own = self._own.updated(event.usage)
        self.spent = self._before.plus(self._own)
        return UsageReported(self.spent)


def _corrected(request: ChatRequest, events: list[Event], misread: ParsedReply) -> ChatRequest:
    """The request with the reply that could not be read, and a note that says why."""
    reply = fold(events, Origin(model=request.model)).message
    note = Message("user", (Text(correction(misread)),), instruction=True)
    return structs.replace(request, conversation=request.conversation.append(reply).append(note))


async def _one_by_one(stream: AsyncIterator[StreamEvent]) -> AsyncGenerator[list[StreamEvent], None]:
    async with aclosing(stream):  # type: ignore[type-var]  # providers give generators
        async for event in stream:
            yield [event]

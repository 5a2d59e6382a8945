"""One request to one provider: the pieces of its reply as they arrive, and what was handed over for it.

They are pushed: from the bytes that arrive to whoever listens, each piece is one plain call, and the task waits for the end. What
the listener gives back is waited for before more is read, so a slow one slows its provider down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import structs

from segue.conversation.blocks import Origin
from segue.conversation.events import Event, Failed, Finished, UsageReported, fold
from segue.errors import ProtocolError, SegueError
from segue.exchange.handovers import Handover, hand_over, sum_of
from segue.providers.adapter import EnoughError, RequestSent
from segue.transcript.text_tools.react import REACT, ReActScanner
from segue.transcript.text_tools.reader import TextToolReader
from segue.transports.transport import in_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from segue.conversation.events import Reply
    from segue.conversation.usage import Usage
    from segue.providers.adapter import ChatRequest, ProviderAdapter, StreamEvent, TakeEvents
    from segue.transcript.text_tools.form import ParsedReply

Piece: TypeAlias = tuple[list[Event], bytes]
"""Some of a reply; and its bytes, if it is passed on as bytes."""
Take: TypeAlias = "Callable[[Attempt, list[Event], bytes], Awaitable[None] | None]"
GRACE: Final = 1.0
"""Seconds that a provider has to end its stream after it was aborted. Then it is cut off."""
_ENDS: Final = frozenset[type]({Finished, Failed})


class Attempt:
    """Used once. What goes wrong is its error: nothing is raised but what its listener raises, and cancellation."""

    forwarded = False
    """Whether somebody else's bytes are sent as they came."""
    shortcut = False
    """Whether it leaves out what its provider holds: what that no longer holds can be sent."""
    begins_state = False
    """Whether its provider is asked to hold what is sent, so that the next one can be a shortcut."""
    streamed = True
    """Whether they ask for a stream; of requests of its own making a provider knows best."""

    def __init__(self, provider: ProviderAdapter, request: ChatRequest, *, route: str = "") -> None:
        self.provider = provider
        self.request = request
        self.route = route or f"{provider.name}/{request.model}"
        self.origin = Origin(provider=provider.name, model=request.model)
        self.made_under = ""
        self.sent: RequestSent | None = None
        self.on_sent: Callable[[RequestSent], None] | None = None
        """Called with the request as it goes out."""
        self.handovers: list[Handover] = []
        self.events: list[Event] = []
        """All that came of the reply."""
        self.error: SegueError | None = None
        self.aborted = False
        self.seconds = 0.0
        self.first_bytes: float | None = None
        """Seconds until something of the reply came; its listener sets this and the next."""
        self.first_content: float | None = None
        """Seconds until its listener had something to show."""
        self.cost: float | None = None
        """Dollars, if whoever asks has counted them."""
        self.may_correct = False
        """Whether the model would be asked again for a reply that cannot be read."""
        self.complete = False
        """Whether the reply came to its end."""
        self.began = monotonic()
        """By the monotonic clock, as its times are."""
        self._abort: asyncio.Event | None = None
        self._take: Take
        self._raised: Exception | None = None
        """What went wrong with who listens."""
        self._ended = False
        self.reader = TextToolReader(ReActScanner()) if request.policy.text_form is REACT else None
        """Of a model that writes its calls as text."""
        self.rejected: ParsedReply | None = None
        """A reply that cannot be read, for which the model is asked again."""

    @property
    def passed(self) -> float:
        """Seconds since it began."""
        return monotonic() - self.began

    def free(self) -> None:
        """Forget what its asker's bytes were: the reply has begun, and the request is not planned again."""
        structs.force_setattr(self.request, "came", b"")

    @property
    def wire_body(self) -> bytes:
        """What its provider got; empty if nothing was sent yet."""
        return self.sent.body if self.sent is not None else b""

    def misread(self, last: Event) -> ParsedReply | None:
        """What is understood of a reply that ends so, if it has an action that cannot be taken and the model is asked again."""
        if self.reader is None or not self.may_correct or type(last) is not Finished or last.reason != "stop":
            return None
        parsed = self.reader.parsed
        return parsed if parsed.problem is not None else None

    @property
    def usage(self) -> Usage:
        """What it came to: by its provider's counts, else by an estimate of what was sent and what arrived."""
        if self.handovers:
            return sum_of(one.usage for one in self.handovers)
        return self.reply.usage

    async def run(self, take: Take, abort: asyncio.Event | None = None) -> SegueError | None:
        """Read the reply. None if it came to its end, or was aborted; else why it did not."""
        self.began = monotonic()
        try:
            if abort is None:
                await self._read(take)
            else:
                await self._until_aborted(take, abort)
        finally:
            self.seconds = self.passed
        if not (self.complete or self.aborted):
            self.error = self.error or _no_end(self.provider.name)
        return self.error

    @cached_property
    def reply(self) -> Reply:
        """What came, as a message; for when it has ended."""
        events = self.events if self.error is None else [*self.events, Failed(self.error)]
        reply = fold(events, self.origin, made_under=self.made_under)
        return structs.replace(reply, finish="cancelled", error=None) if self.aborted else reply

    async def ask(self) -> None:
        """Send the request, and hand all that arrives to `hear`, to its end. What ends it comes alone."""
        push, request = self.provider.capabilities.push, self.request
        try:
            if push is not None:
                await push(request, self._take_portion)
            else:
                await _push_one_by_one(self.provider.chat_stream(request), self._take_portion)
            if self.reader is not None and not self._ended:
                await self._hear_last(self.reader.close())
        except EnoughError:
            raise
        except SegueError as error:
            await self._hear_last(self._failed(error))
        except Exception as error:  # whatever a provider does, who asked stays usable
            await self._hear_last(self._failed(unexpected(error)))

    def _take_portion(self, portion: list[StreamEvent]) -> Awaitable[None] | None:
        if type(first := portion[0]) is RequestSent:
            self._hand_over(first)
            portion = portion[1:]
        events: list[Event] = portion  # type: ignore[assignment]  # only the first is no event
        if self.handovers:
            events = self.handovers[-1].note(events)
        if self.reader is not None:
            events = [read for event in events for read in self.reader.feed(event)]
        if not events:
            return None
        self._ended = type(events[-1]) in _ENDS
        if self._ended and len(events) > 1:
            return in_turn(self.hear(some, b"") for some in (events[:-1], events[-1:]))
        return self.hear(events, b"")

    def _hand_over(self, sent: RequestSent) -> None:
        # Of a provider without a wire nobody knows what it sends: it is code of this process.
        size = len(sent.body)
        handover = hand_over(self.route, self.request, size=size, refers=self.shortcut or not size)
        self.handovers.append(handover)
        self.begin(sent)

    async def _hear_last(self, events: Iterable[Event]) -> None:
        for event in events:
            if (wait := self.hear([event], b"")) is not None:
                await wait

    def _failed(self, error: SegueError) -> list[Event]:
        failed: list[Event] = [Failed(error)]
        return self.handovers[-1].note(failed) if self.handovers else failed

    def begin(self, sent: RequestSent) -> None:
        """The request goes out."""
        self.sent, self.origin, self.made_under = sent, sent.origin, sent.made_under
        if self.on_sent is not None:
            self.on_sent(sent)

    def received(self, events: list[Event], data: bytes) -> Piece:
        """What a listener gets for it."""
        last = events[-1] if events else None
        if type(last) is Finished and last.reason == "error":
            return [*events[:-1], Failed(_ended_in_error(self.provider.name, last.raw))], data
        return events, data

    async def _read(self, take: Take) -> None:
        self._take = take
        try:
            with suppress(EnoughError):
                await self.ask()
        except asyncio.CancelledError as left:
            if self.handovers:
                self.handovers[-1].cancel(left)
            raise
        finally:
            # Who listens mostly keeps its attempt: together they would hold the whole request until the next collection.
            del self._take
        if self._raised is not None:
            raise self._raised

    def hear(self, events: list[Event], data: bytes) -> Awaitable[None] | None:
        """Some of the reply is here. Raises `EnoughError` if no more is wanted: who listens has raised something, or the reply has
        failed."""
        if self._abort is None:
            return self._hear(events, data)
        return in_turn(self._hear([event], data) for event in events)

    def _hear(self, events: list[Event], data: bytes) -> Awaitable[None] | None:
        if self._abort is not None and self._abort.is_set():
            self.aborted = True
        if self.aborted:  # from now on everything but the usage is ignored
            self.events += [event for event in events if type(event) is UsageReported]
            return None
        events, data = self.received(events, data)
        for place, event in enumerate(events):
            if type(event) is Failed:
                self.error, events = event.error, events[:place]
                break
            if type(event) is Finished:
                self.complete, self.rejected = True, self.misread(event)
        self.events += events
        try:
            wait = self._take(self, events, data)
        except Exception as error:
            self._raised = error
            raise EnoughError from error
        if wait is not None:
            return self._wait_for(wait)
        if self.error is not None:
            raise EnoughError
        return None

    async def _wait_for(self, wait: Awaitable[None]) -> None:
        try:
            await wait
        except Exception as error:
            self._raised = error
            raise EnoughError from error
        if self.error is not None:
            raise EnoughError

    async def _until_aborted(self, take: Take, abort: asyncio.Event) -> None:
        if abort.is_set():
            self.aborted = True
            return
        self._abort, self.request = abort, structs.replace(self.request, abort=abort)
        reading = asyncio.create_task(self._read(take))
        waiting = asyncio.ensure_future(abort.wait())
        try:
            await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                self.aborted = True
                await asyncio.wait({reading}, timeout=GRACE)
        finally:
            waiting.cancel()
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading}, timeout=GRACE)
        if reading.done() and not reading.cancelled():
            reading.result()


async def _push_one_by_one(stream: AsyncIterator[StreamEvent], take: TakeEvents) -> None:
    try:
        async for event in stream:
            if (wait := take([event])) is not None:
                await wait
            if type(event) in _ENDS:
                return
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def unexpected(error: Exception) -> SegueError:
    """Any exception as an error that can be reported."""
    wrapped = SegueError(
        f"Unexpected {type(error).__name__}: {error}",
        code="unexpected",
        hint="This is a defect of segue, of a provider or of a tool's code. The chat stays usable.",
    )
    wrapped.__cause__ = error
    return wrapped


def _ended_in_error(provider: str, word: str) -> ProtocolError:
    """Some providers end a reply with a single word for what went wrong."""
    return ProtocolError(
        f"{provider} ended its reply with: {word or 'error'}.",
        code="reply_failed",
        hint="Try again, or use another provider.",
    )


def _no_end(provider: str) -> ProtocolError:
    return ProtocolError(
        f"{provider} stopped in the middle of its reply.",
        code="no_end",
        hint="Try again, or use another provider.",
    )

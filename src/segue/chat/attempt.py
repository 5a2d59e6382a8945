"""One request to one provider: its events are reported as they arrive, and make up the reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from segue.conversation.blocks import Citation, Origin
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Event,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageReported,
    fold,
)
from segue.errors import ProtocolError, SegueError
from segue.events import Citations, Emit, MediaChunk, ReasoningChunk, TextChunk, ToolCallChunk
from segue.providers.adapter import RequestSent
from segue.transcript.citations import is_listed
from segue.transcript.repairs import Repair
from segue.transcript.text_tools.form import ParsedReply
from segue.transcript.text_tools.react import REACT, ReActScanner
from segue.transcript.text_tools.reader import TextToolReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from segue.providers.adapter import ChatRequest, ProviderAdapter, StreamEvent

GRACE = 1.0
"""Seconds that a provider has to end its stream after a turn was cancelled. Then it is cut off."""


class Attempt(Struct):
    """Made for one request and used once. It never raises: what goes wrong is the reply's error."""

    emit: Emit
    abort: asyncio.Event
    on_repairs: Callable[[tuple[Repair, ...]], None] | None = None
    """Receives what was repaired in the request, if anything was."""
    sent: RequestSent | None = None
    seconds: float = 0.0
    first_token: float | None = None
    """Seconds until the user saw something of the reply; None: nothing was shown."""
    misread: ParsedReply | None = None
    """The reply of a model that writes its calls as text, where it could not be read."""
    _events: list[Event] = []
    _called: dict[int, str] = {}
    """The names of the calls so far."""
    _cited: list[Citation] = []
    _over: bool = False
    _aborted: bool = False
    _started: float = 0.0

    async def run(self, provider: ProviderAdapter, request: ChatRequest) -> Reply:
        request = structs.replace(request, abort=self.abort)
        self._started = monotonic()
        reader = TextToolReader(ReActScanner()) if request.policy.text_form is REACT else None
        await self._until_aborted(provider, request, reader)
        self.seconds = monotonic() - self._started
        if not self._over and not self._aborted:
            self._events.append(Failed(_no_end(provider.name)))
        if reader is not None and reader.parsed.problem is not None:
            self.misread = reader.parsed
        if self.sent is None:
            reply = fold(self._events, Origin(provider=provider.name, model=request.model))
        else:
            reply = fold(self._events, self.sent.origin, made_under=self.sent.made_under)
        if reply.finish == "error" and reply.error is None:
            reply = structs.replace(reply, error=_failed(provider.name, reply.raw_finish))
        return structs.replace(reply, finish="cancelled", error=None) if self._aborted else reply

    async def _until_aborted(
        self, provider: ProviderAdapter, request: ChatRequest, reader: TextToolReader | None
    ) -> None:
        if self.abort.is_set():
            self._aborted = True
            return
        reading = asyncio.create_task(self._read(provider, request, reader))
        aborted = asyncio.ensure_future(self.abort.wait())
        try:
            await asyncio.wait({reading, aborted}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                # From now on everything but the usage is ignored.
                self._aborted = True
                await asyncio.wait({reading}, timeout=GRACE)
        finally:
            aborted.cancel()
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading}, timeout=GRACE)

    async def _read(
        self, provider: ProviderAdapter, request: ChatRequest, reader: TextToolReader | None
    ) -> None:
        stream: AsyncIterator[StreamEvent] | None = None
        try:
            stream = provider.chat_stream(request)
            async for event in stream:
                if type(event) is RequestSent:
                    self.sent = event
                    if event.repairs and self.on_repairs is not None:
                        self.on_repairs(event.repairs)
                    continue
                for read in (event,) if reader is None else reader.feed(event):
                    self._receive(read)
                if self._over:
                    break
            for read in () if reader is None else reader.close():
                self._receive(read)
        except SegueError as error:
            self._receive(Failed(error))
        except Exception as error:  # whatever a provider does, the chat stays usable
            self._receive(Failed(unexpected(error)))
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def _receive(self, event: Event) -> None:
        if self._aborted and type(event) is not UsageReported:
            return
        self._events.append(event)
        self._over = type(event) is Finished or type(event) is Failed
        if type(event) is Cited:
            self._cited.append(event.citation)
        elif type(event) is Finished and any(map(is_listed, self._cited)):
            self.emit(Citations(tuple(self._cited)))
        chunk: TextChunk | ReasoningChunk | MediaChunk | ToolCallChunk
        if type(event) is TextDelta and event.text:
            chunk = TextChunk(event.text)
        elif type(event) is ReasoningDelta and event.text:
            chunk = ReasoningChunk(event.text)
        elif type(event) is MediaArrived:
            chunk = MediaChunk(event.media)
        elif type(event) is CallStarted:
            self._called[event.index] = event.name or self._called.get(event.index, "")
            chunk = ToolCallChunk(event.index, self._called[event.index])
        elif type(event) is ArgumentsDelta and event.text:
            chunk = ToolCallChunk(event.index, self._called.get(event.index, ""), event.text)
        else:
            return
        # A call that is being written is no output yet: the reply may still be asked for again.
        if self.first_token is None and type(chunk) is not ToolCallChunk:
            self.first_token = monotonic() - self._started
        self.emit(chunk)


def unexpected(error: Exception) -> SegueError:
    """Any exception as an error that can be reported."""
    wrapped = SegueError(
        f"Unexpected {type(error).__name__}: {error}",
        code="unexpected",
        hint="This is a defect of segue, of a provider or of a tool's code. The chat stays usable.",
    )
    wrapped.__cause__ = error
    return wrapped


def _failed(provider: str, word: str) -> ProtocolError:
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

"""One request to one provider: its events told as they arrive, and the reply that they make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import Origin
from segue.conversation.events import (
    Event,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageReported,
)
from segue.errors import ProtocolError, SegueError
from segue.events import MediaChunk, ReasoningChunk, TextChunk
from segue.providers.adapter import RequestSent, fold_stream
from segue.transcript.text_tools.react import REACT
from segue.transcript.text_tools.react_scanner import ReActScanner
from segue.transcript.text_tools.reader import TextToolReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from segue.events import Emit
    from segue.providers.adapter import ChatRequest, ProviderAdapter, StreamEvent
    from segue.transcript.text_tools.form import ParsedReply

GRACE = 1.0
"""Seconds that a provider has to end its stream when it is told to. Then it is cut off."""


class Attempt:
    """Made for one request and used once. It never raises: what goes wrong is the reply's error."""

    def __init__(
        self, emit: Emit, abort: asyncio.Event, on_sent: Callable[[RequestSent], None] | None = None
    ) -> None:
        self.shown = False
        """Whether the user has seen anything of the reply."""
        self.sent: RequestSent | None = None
        self.seconds = 0.0
        self.first_token: float | None = None
        self.misread: ParsedReply | None = None
        """What a model that is asked in words said, where that is no proper action."""
        self._emit = emit
        self._abort = abort
        self._on_sent = on_sent
        self._events: list[StreamEvent] = []
        self._over = False
        self._aborted = False
        self._started = monotonic()

    async def run(self, provider: ProviderAdapter, request: ChatRequest) -> Reply:
        request = structs.replace(request, abort=self._abort)
        self._started = monotonic()
        reader = TextToolReader(ReActScanner()) if request.policy.text_form is REACT else None
        await self._until_stopped(provider, request, reader)
        self.seconds = monotonic() - self._started
        if not self._over and not self._aborted:
            self._events.append(Failed(_no_end(provider.name)))
        if reader is not None and reader.parsed.problem is not None:
            self.misread = reader.parsed
        reply = fold_stream(self._events, Origin(provider=provider.name, model=request.model))
        if reply.finish == "error" and reply.error is None:
            reply = structs.replace(reply, error=_failed(provider.name, reply.raw_finish))
        return structs.replace(reply, finish="cancelled", error=None) if self._aborted else reply

    async def _until_stopped(
        self, provider: ProviderAdapter, request: ChatRequest, reader: TextToolReader | None
    ) -> None:
        if self._abort.is_set():
            self._aborted = True
            return
        listening = asyncio.create_task(self._listen(provider, request, reader))
        stopped = asyncio.ensure_future(self._abort.wait())
        try:
            await asyncio.wait({listening, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                # What is said from now on is not heard, except for what it cost.
                self._aborted = True
                await asyncio.wait({listening}, timeout=GRACE)
        finally:
            stopped.cancel()
            if not listening.done():
                listening.cancel()
                await asyncio.wait({listening}, timeout=GRACE)

    async def _listen(
        self, provider: ProviderAdapter, request: ChatRequest, reader: TextToolReader | None
    ) -> None:
        stream: AsyncIterator[StreamEvent] | None = None
        try:
            stream = provider.chat_stream(request)
            async for event in stream:
                if type(event) is RequestSent:
                    self._remember(event)
                    continue
                for told in (event,) if reader is None else reader.feed(event):
                    self._hear(told)
                if self._over:
                    break
            for told in () if reader is None else reader.close():
                self._hear(told)
        except SegueError as error:
            self._hear(Failed(error))
        except Exception as error:  # whatever a provider does, the chat stays usable
            self._hear(Failed(unexpected(error)))
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def _hear(self, event: Event) -> None:
        if self._over or (self._aborted and type(event) is not UsageReported):
            return
        self._events.append(event)
        if type(event) is TextDelta and event.text:
            self._show(TextChunk(event.text))
        elif type(event) is ReasoningDelta and event.text:
            self._show(ReasoningChunk(event.text))
        elif type(event) is MediaArrived:
            self._show(MediaChunk(event.media))
        elif type(event) is Finished or type(event) is Failed:
            self._over = True

    def _show(self, chunk: TextChunk | ReasoningChunk | MediaChunk) -> None:
        if self.first_token is None:
            self.first_token = monotonic() - self._started
        self.shown = True
        self._emit(chunk)

    def _remember(self, sent: RequestSent) -> None:
        self.sent = sent
        self._events.append(sent)
        if self._on_sent is not None:
            self._on_sent(sent)


def unexpected(error: Exception) -> SegueError:
    """An error that nobody foresaw, as one that can be told."""
    told = SegueError(
        f"Unexpected {type(error).__name__}: {error}",
        code="unexpected",
        hint="This is a defect of segue, of a provider or of a tool's code. The chat can go on.",
    )
    told.__cause__ = error
    return told


def _failed(provider: str, word: str) -> ProtocolError:
    """Some providers end a reply with no more than a word for what went wrong."""
    return ProtocolError(
        f"{provider} broke its reply off, saying only: {word or 'error'}.",
        code="reply_failed",
        hint="Ask again, or another provider.",
    )


def _no_end(provider: str) -> ProtocolError:
    return ProtocolError(
        f"{provider} stopped in the middle of its reply.",
        code="no_end",
        hint="Ask again, or another provider.",
    )

"""A turn that runs in a task of its own, so that whoever waits for it may be cancelled without tearing it.

Its events are heard through an `EventStream`; who lets go of that cancels the turn.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, final

from segue.chat.session import Answer
from segue.conversation.blocks import Text
from segue.conversation.json_safe import encodable
from segue.conversation.message import Message, user
from segue.errors import UsageError
from segue.events import ChatEvent, Finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from segue.conversation.blocks import Block
    from segue.events import Emit


class RunningTurn:
    """Something that a chat is busy with, and the way to stop it."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.abort = asyncio.Event()
        self.answer = Answer(finish="cancelled")
        self.abandoned = False
        """Nobody waits for it any more: it is about to be cancelled, if it is not yet."""
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    @property
    def ending(self) -> bool:
        return self.abandoned or self.abort.is_set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(work)

    async def over(self) -> None:
        """Wait for the end. Who is cancelled meanwhile cancels the turn, and sees it end."""
        try:
            if self._task is not None:
                await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.stop()
            raise

    def abandon(self) -> None:
        """Cancel it from wherever its listener is thrown away, which may be any thread."""
        self.abandoned = True
        with suppress(RuntimeError):  # the loop is gone, and the turn with it
            self._loop.call_soon_threadsafe(self.abort.set)

    async def stop(self) -> None:
        """Cancel what is not over yet, and wait for its end."""
        if self._task is None:
            self.abort.set()
        elif not self._task.done():
            self.abort.set()
            await asyncio.wait({self._task})


@final
class EventStream:
    """The events of one turn, which begins when the first is asked for. The last one is `Finish`."""

    def __init__(self, begin: Callable[[Emit], Awaitable[RunningTurn]]) -> None:
        self._begin = begin
        self._turn: RunningTurn | None = None
        self._events: asyncio.Queue[ChatEvent] = asyncio.Queue()
        self._over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        if self._over:
            raise StopAsyncIteration
        if self._turn is None:
            self._turn = await self._begin(self._events.put_nowait)
        try:
            event = await self._events.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        self._over = type(event) is Finish
        return event

    async def aclose(self) -> None:
        """Cancel the turn if it still runs, and wait for its end."""
        over, self._over = self._over, True
        if self._turn is not None and not over:
            await self._turn.stop()

    def __del__(self) -> None:
        if self._turn is not None and not self._over:
            self._turn.abandon()


def spoken(said: tuple[str | Block, ...]) -> Message:
    """What a user says, as a message."""
    blocks = [Text(encodable(block)) if isinstance(block, str) else block for block in said]
    if not any(type(block) is not Text or block.text.strip() for block in blocks):
        raise UsageError(
            "Nothing was said.", code="empty_prompt", hint="Give a text, an image or a document."
        )
    return user(*blocks)

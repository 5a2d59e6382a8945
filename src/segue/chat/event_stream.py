"""The events of a turn as an asynchronous iterator. Whoever stops iterating cancels the turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self, final

from segue.events import ChatEvent, Finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from segue.chat.turn import Turn
    from segue.events import Emit


@final
class EventStream:
    """The events of one turn, which begins when the first is asked for. The last one is `Finish`."""

    def __init__(self, begin: Callable[[Emit], Awaitable[Turn]]) -> None:
        self._begin = begin
        self._turn: Turn | None = None
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

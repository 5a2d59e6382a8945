"""A turn that runs in a task of its own, so that whoever waits for it may be cancelled without tearing it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from segue.chat.session import Answer
from segue.conversation.blocks import Text
from segue.conversation.message import Message, user
from segue.conversation.plain import sayable
from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from segue.chat.scheduler import Emit
    from segue.conversation.blocks import Block


class RunningTurn:
    """Something that a chat is busy with, and the way to stop it."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.abort = asyncio.Event()
        self.answer = Answer(finish="cancelled")
        self._task: asyncio.Task[None] | None = None

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

    async def stop(self) -> None:
        """Cancel what is not over yet, and wait for its end."""
        if self._task is None:
            self.abort.set()
        elif not self._task.done():
            self.abort.set()
            await asyncio.wait({self._task})


def spoken(said: tuple[str | Block, ...]) -> Message:
    """What a user says, as a message."""
    blocks = [Text(sayable(block)) if isinstance(block, str) else block for block in said]
    if not any(type(block) is not Text or block.text.strip() for block in blocks):
        raise UsageError(
            "Nothing was said.", code="empty_prompt", hint="Give a text, an image or a document."
        )
    return user(*blocks)

"""Notes in the store which conversations run, beside their requests: none of these waits for it.

A request is counted when it has ended, by the statement that remembers its reply. What operators list and switch while it runs is noted
here: a conversation that begins at once, because its client gets its id with the first bytes; of the others only the one that was asked
last, for `segue switch last`, and only if it is still asked after a moment. A usual short request of a known conversation writes once.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from segue.gateway.memory.memory import Memory
    from segue.gateway.memory.store import ConversationInfo

MOMENT: Final = 0.5
"""Seconds. However many requests come, no more than one of known conversations is noted in that time."""


@final
class ConversationNotes:
    """Those of one gateway."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._latest: ConversationInfo | None = None
        """Asked last, and not noted since."""
        self._look_at = 0.0
        """A time, not a timer: a loop may end before its timers do."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def asked(self, seen: ConversationInfo, *, known: bool) -> None:
        """A request is about to be sent. `known`: the store has its conversation."""
        if not known:
            self._latest = None
            self._start(self._memory.note_request(seen))
            return
        self._latest = seen
        if (now := monotonic()) >= self._look_at:
            self._look_at = now + MOMENT
            asyncio.get_running_loop().call_later(MOMENT, self._note_latest)

    def ended(self, seen: ConversationInfo, *, remembered: bool) -> None:
        """`remembered`: noted along with its reply."""
        if self._latest is not None and self._latest.id == seen.id:
            self._latest = None
        if not remembered:
            self._start(self._memory.note(seen))

    async def settle(self) -> None:
        """Wait for what is being written."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _note_latest(self) -> None:
        seen, self._latest = self._latest, None
        if seen is not None:
            self._start(self._memory.note_request(seen))

    def _start(self, noting: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(noting)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

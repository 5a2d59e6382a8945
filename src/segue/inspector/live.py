"""What happens, told to pages that are open: a count that goes up, and a ring of what happened last.

A page that does not keep up with the ring is told to fetch everything anew. Nothing here ever waits for a page.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

RING: Final = 1000
PAUSE: Final = 0.1
"""Seconds for which changes gather."""
SILENCE: Final = 15.0
"""Seconds after which a watcher gets a comment, so that its connection stays open."""


@final
class Channel:
    """Conversations to which something happened, in order."""

    def __init__(self) -> None:
        self.count = 0
        self._ring: deque[tuple[int, str]] = deque(maxlen=RING)
        self._dirty: dict[str, None] = {}
        self._planned = False
        self.watchers: set[asyncio.Event] = set()
        """One for each page that is open: it is set when something happened."""

    def changed(self, conversation: str) -> None:
        """On the event loop."""
        if not self.watchers:
            self.count += 1
            self._ring.append((self.count, conversation))
            return
        self._dirty[conversation] = None
        if not self._planned:
            try:
                asyncio.get_running_loop().call_later(PAUSE, self._tell)
            except RuntimeError:
                return
            self._planned = True

    def _tell(self) -> None:
        self._planned = False
        dirty, self._dirty = self._dirty, {}
        for conversation in dirty:
            self.count += 1
            self._ring.append((self.count, conversation))
        for watcher in self.watchers:
            watcher.set()

    def since(self, count: int) -> Sequence[str] | None:
        """The conversations to which something happened after this count, each once; None if that is too long ago to be known."""
        if count > self.count or (self._ring and count < self._ring[0][0] - 1):
            return None
        missed = self.count - count
        return list(
            dict.fromkeys(name for _, name in islice(self._ring, max(len(self._ring) - missed, 0), None))
        )

    async def follow(self, last: int | None) -> AsyncIterator[tuple[int, Sequence[str] | None]]:
        """Counts and what happened up to them; None: more than is known, so fetch anew. Empty: nothing for a while."""
        watcher = asyncio.Event()
        self.watchers.add(watcher)
        seen = self.count if last is None else last
        try:
            if last is not None and last != self.count:
                missed = self.since(last)
                seen = self.count
                yield seen, missed
            while True:
                try:
                    await asyncio.wait_for(watcher.wait(), SILENCE)
                except TimeoutError:
                    yield seen, ()
                    continue
                watcher.clear()
                changed = self.since(seen)
                seen = self.count
                yield seen, changed
                await asyncio.sleep(PAUSE)
        finally:
            self.watchers.discard(watcher)

"""The gateway's memory in this process only: for tests, and for those who want nothing on the disk."""

from __future__ import annotations

import time
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import structs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.gateway.memory.store import ConversationInfo, MemoryRecord


class VolatileStore:
    """Bounded like the one on the disk; gone with the process."""

    def __init__(
        self,
        *,
        max_bytes: int = 64 << 20,
        max_records: int = 100_000,
        keep_seconds: float = 30 * 86_400.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._records: OrderedDict[int, tuple[float, MemoryRecord]] = OrderedDict()
        self._numbers: dict[bytes, int] = {}
        self._next = 0
        self._bytes = 0
        self._conversations: OrderedDict[str, ConversationInfo] = OrderedDict()

    async def write(self, records: Sequence[MemoryRecord], seen: ConversationInfo | None = None) -> None:
        if seen is not None:
            await self.note(seen)
        for record in records:
            self._records[self._next] = self._clock(), record
            for key in record.keys:
                self._numbers[key] = self._next
            for key in record.first_keys:
                self._numbers.setdefault(key, self._next)
            self._next += 1
            self._bytes += len(record.body)
        while self._records and (self._bytes > self._max_bytes or len(self._records) > self._max_records):
            self._drop(next(iter(self._records)))

    async def read(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for key in keys:
            number = self._numbers.get(key)
            if number is None:
                continue
            used, record = self._records[number]
            if used + self._keep_seconds < self._clock():
                self._drop(number)
            else:
                del self._records[number]
                self._records[number] = self._clock(), record
                found[key] = record.body
        return found

    async def delete(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            if (number := self._numbers.get(key)) is not None:
                self._drop(number)

    async def note(self, seen: ConversationInfo) -> None:
        now = self._clock()
        known = self._conversations.get(seen.id)
        if known is not None and known.caller != seen.caller:
            return
        self._conversations.pop(seen.id, None)
        self._conversations[seen.id] = structs.replace(
            seen,
            switched=known.switched if known else "",
            requests=known.requests + 1 if known else 1,
            created=known.created if known else now,
            updated=now,
        )
        while len(self._conversations) > self._max_records:
            self._conversations.popitem(last=False)

    async def conversation(self, conversation_id: str) -> ConversationInfo | None:
        return self._conversations.get(conversation_id)

    async def conversations(self, limit: int = 50, caller: str | None = None) -> Sequence[ConversationInfo]:
        latest = reversed(self._conversations.values())
        return list(islice((info for info in latest if caller in (None, info.caller)), limit))

    async def switch(self, conversation_id: str, model: str, caller: str | None = None) -> bool:
        known = self._conversations.get(conversation_id)
        if known is None or caller not in (None, known.caller):
            return False
        self._conversations[conversation_id] = structs.replace(known, switched=model)
        return True

    async def check(self) -> None:
        """It is always there."""

    async def close(self) -> None:
        """Nothing is forgotten: the gateway that replaces this one may go on with it."""

    def _drop(self, number: int) -> None:
        _, record = self._records.pop(number)
        self._bytes -= len(record.body)
        for key in (*record.keys, *record.first_keys):
            if self._numbers.get(key) == number:
                del self._numbers[key]

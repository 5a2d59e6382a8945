"""What chats have used: every reply of the sessions in a store, by day and model."""

from __future__ import annotations

import time
from calendar import timegm
from typing import TYPE_CHECKING, NamedTuple, final

from segue.conversation.usage import NO_USAGE, Usage
from segue.errors import SegueError
from segue.sessions.entries import CallEnded, Compacted, ModelReplied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from segue.sessions.entries import Record
    from segue.sessions.stores.store import Store

TOOLS = "(tools and summaries)"
"""In place of a model: what subagents, tools and compactions asked of models, which the journal does not name."""
DAY = 86400.0


@final
class Spent(NamedTuple):
    """One request of a chat, and what it came to."""

    day: str
    model: str
    usage: Usage
    cost: float | None
    """Dollars; None: the price is not known."""
    repairs: int = 0


async def expenses(store: Store, first: str, last: str) -> AsyncIterator[Spent]:
    """What was used from one day to another (UTC), each as 2026-01-31. A session that cannot be read is skipped."""
    begin = _start_of(first)
    for info in await store.find(limit=100_000):
        if info.updated < begin:
            continue
        try:
            records = await store.read(info.id)
        except SegueError:  # `segue sessions` and the doctor report damage; a sum need not end for it
            continue
        for record in records:
            found = _spent(record)
            if found is not None and first <= found.day <= last:
                yield found


def _spent(record: Record) -> Spent | None:
    day, entry = time.strftime("%Y-%m-%d", time.gmtime(record.at)), record.entry
    match entry:
        case ModelReplied(message=message) if entry.usage != NO_USAGE or entry.cost is not None:
            origin = message.origin
            model = f"{origin.provider}/{origin.model}" if origin is not None else TOOLS
            return Spent(day, model, entry.usage, entry.cost, entry.repairs)
        case CallEnded() | Compacted() if entry.usage != NO_USAGE:
            return Spent(day, TOOLS, entry.usage, entry.cost)
        case _:
            return None


def _start_of(day: str) -> float:
    """Seconds since 1970; a day earlier, as clocks of two machines may differ."""
    return timegm(time.strptime(day, "%Y-%m-%d")) - DAY

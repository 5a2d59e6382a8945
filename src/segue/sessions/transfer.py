"""Whole sessions from one store into another: ids, entries, times, links between sessions. What cannot be copied is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from msgspec import Struct

from segue.errors import JournalError
from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Record, SessionStarted
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.leases import this_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from segue.sessions.stores.store import SessionInfo, Store

Outcome: TypeAlias = Literal["copied", "known", "failed"]
"""Written now; there already, the same; not copied, for the reason that is given."""
ALL: Final = 1_000_000
_SAME_TIME: Final = 1e-5
"""Seconds: stores round differently in the last digits."""


@final
class CopiedSession(Struct, frozen=True, kw_only=True):
    """What became of one session."""

    id: str
    outcome: Outcome
    entries: int = 0
    problem: str = ""


async def copy_sessions(
    source: Store, target: Store, names: Sequence[str] = ()
) -> AsyncIterator[CopiedSession]:
    """Copy these sessions, or all, the oldest first, each with those of its subagents; nothing is removed."""
    for info in await _sessions(source, names):
        try:
            yield await _copy(source, target, info)
        except JournalError as error:
            yield CopiedSession(id=info.id, outcome="failed", entries=info.entries, problem=str(error))


async def _sessions(source: Store, names: Sequence[str]) -> list[SessionInfo]:
    known = {info.id: info for info in await source.find(limit=ALL)}
    for name in names:
        if name not in known:
            raise errors.unknown_session(name)
    found = [known[name] for name in names] if names else list(known.values())
    for info in found:  # it grows: subagents have subagents
        children = await source.find(parent=info.id, limit=ALL)
        found += [child for child in children if child.parent is not None and child.parent.call]
    return sorted(found, key=lambda info: info.created)


async def _copy(source: Store, target: Store, info: SessionInfo) -> CopiedSession:
    if info.holder is not None:
        where = f"process {info.holder.pid} on {info.holder.host}"
        return _failed(info, f"It is open in {where}. Close it there first.")
    items = await source.salvage(info.id)
    if damaged := [item for item in items if isinstance(item, DamagedEntry)]:
        named = "; ".join(f"entry {item.seq} ({item.place}): {item.why}" for item in damaged[:5])
        hint = f"Keep what can be read: segue sessions export {info.id} -o FILE; segue sessions import FILE"
        return _failed(info, f"{len(damaged)} of its entries are damaged: {named}. {hint}")
    records = [item for item in items if isinstance(item, Record)]
    try:
        there = await target.read(info.id)
    except JournalError as error:
        if error.code != "unknown_session":
            raise
    else:
        if _are_same(records, there):
            return CopiedSession(id=info.id, outcome="known", entries=len(records))
        return _failed(
            info, "There is another session with this id, or this one has changed since it was copied."
        )
    await _write(target, info.id, records)
    if not _are_same(records, await target.read(info.id)):
        return _failed(info, "What was written is not what was read. Please report it with both stores.")
    return CopiedSession(id=info.id, outcome="copied", entries=len(records))


async def _write(target: Store, session: str, records: Sequence[Record]) -> None:
    first = records[0].entry
    if not isinstance(first, SessionStarted):
        raise errors.misfit("A session starts with its first entry.")
    more = [EncodedEntry.of(record.entry) for record in records[1:]]
    times = [record.at for record in records]
    lease = await target.create(session, EncodedEntry.of(first), this_process(), more=more, times=times)
    await target.release(lease)


def _are_same(ours: Sequence[Record], theirs: Sequence[Record]) -> bool:
    return len(ours) == len(theirs) and all(
        one.seq == other.seq and one.entry == other.entry and abs(one.at - other.at) < _SAME_TIME
        for one, other in zip(ours, theirs, strict=True)
    )


def _failed(info: SessionInfo, problem: str) -> CopiedSession:
    return CopiedSession(id=info.id, outcome="failed", entries=info.entries, problem=problem)

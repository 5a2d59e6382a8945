"""One open session: what its writer may do with it."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Self
from uuid import uuid4

from msgspec import structs

from segue.conversation.usage import Usage
from segue.errors import JournalError, UsageError
from segue.sessions import errors
from segue.sessions.entries import (
    CallEnded,
    Compacted,
    Entry,
    Link,
    ModelReplied,
    Record,
    Rewound,
    SessionStarted,
    SettingsChanged,
    TurnEnded,
)
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.leases import RENEW_SECONDS, Lease, this_process
from segue.sessions.recovery import closing_entries
from segue.sessions.state import State, refuse_misfits, replay
from segue.sessions.stores.store import outlast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from segue.sessions.stores.store import Store

PATIENCE: Final = 5.0
"""Seconds in which others may hold a session that waits for answers: they write one."""
PAUSE: Final = 0.05


class Journal:
    """A session of which we are the writer: every entry is durable before `append` comes back."""

    def __init__(self, store: Store, lease: Lease, state: State) -> None:
        self.store = store
        self.session = lease.session
        self.state = state
        self.fenced = False
        """Somebody else took the session over; nothing can be written any more."""
        self._lease = lease
        self._resting = False
        self._writers = 0
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    async def start(
        cls, store: Store, started: SessionStarted, session: str = "", *, more: Sequence[Entry] = ()
    ) -> Self:
        """A new session with these first entries: all of them, or no session."""
        first, rest = EncodedEntry.of(started), [EncodedEntry.of(entry) for entry in more]
        state = replay(Record(seq, 0.0, one.entry) for seq, one in enumerate((first, *rest), 1))
        lease = await store.create(session or new_session_id(), first, this_process(), more=rest)
        return cls(store, lease, state)

    @classmethod
    async def resume(
        cls, store: Store, session: str, *, take_over: bool = False, keep_turn: bool = False
    ) -> Self:
        """An existing session. What a crash left open is closed: its calls as interrupted, its turn as cancelled.

        A turn that waits for an approval stays open; with `keep_turn` every turn does.
        """
        lease = await store.claim(session, this_process(), take_over=take_over)
        try:
            journal = cls(store, lease, replay(await store.read(session)))
            if not (keep_turn or journal.state.waits):
                await journal.close_turn()
        except BaseException:
            await store.release(lease)
            raise
        return journal

    async def append(self, *entries: Entry) -> None:
        """Write entries, all or none, then take them into the state.

        A caller that is cancelled while it waits finds them written all the same: a state that lags behind the disk would
        be wrong from then on.
        """
        if not entries:
            return
        self._writers += 1
        try:
            # A task of its own for every entry would take as long as all the rest that is done here.
            await (self._append(entries) if self._writers == 1 else self._append_in_turn(entries))
        finally:
            self._writers -= 1

    async def renew(self) -> None:
        lease = self._lease
        try:
            await self.store.renew(lease)
        except JournalError as error:
            if self._resting or lease is not self._lease:
                return
            self.fenced = self.fenced or error.code == "fenced"
            raise

    async def rest(self) -> None:
        """Release the session, until something is written here again: meanwhile any process may write to it."""
        self._resting = True
        with suppress(JournalError):  # a store that is away: the lease ends by itself
            await self.store.release(self._lease)

    async def wake(self) -> None:
        """Claim the session again after `rest`, with what was written meanwhile. Raises JournalError `session_busy`."""
        async with self._locked():
            await self._wake()

    async def look(self) -> None:
        """Take into the state what others have written while this one rests."""
        async with self._locked():
            if self._resting:
                await self._catch_up()

    @asynccontextmanager
    async def hold(self, every: float = RENEW_SECONDS) -> AsyncIterator[Self]:
        """Keep the lease alive while the block runs. If it is lost nevertheless, `fenced` is true."""
        beating = asyncio.ensure_future(self._beat(every))
        try:
            yield self
        finally:
            beating.cancel()
            await outlast(beating)

    async def close_turn(self, end: TurnEnded | None = None) -> None:
        """End a turn that is open, if one is; calls without an end are closed as after a crash. `end`: None where the turn
        ends as its own process would have ended it when cancelled."""
        state = self.state
        if not state.in_turn:
            return
        if state.answered and not state.open_calls():
            await self.append(end or TurnEnded("complete"))
        else:
            *closing, ended = closing_entries(state)
            await self.append(*closing, end or ended)

    async def undo(self) -> None:
        """Undo the last turn. What its tools did stays done."""
        await self._rewind(self.state.undo_to, "undo")

    async def redo(self) -> None:
        """Redo the last undo, unless another turn has begun since."""
        await self._rewind(self.state.redo_to, "redo")

    async def rename(self, title: str) -> None:
        await self.append(SettingsChanged(title=title))

    async def fork(self, *, at: int | None = None, session: str = "") -> Journal:
        """A new session with the conversation of this one, up to the boundary `at`. This one does not change."""
        return await fork(self.store, self.session, at=at, session_id=session)

    async def close(self) -> None:
        await self.store.release(self._lease)

    async def delete(self) -> None:
        """Remove the session, and close it with that."""
        await self.close()
        await self.store.delete(self.session)

    def _locked(self) -> asyncio.Lock:
        """Entries enter the state in the order they are written. A lock belongs to a loop; a journal may outlive it."""
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock

    async def _wake(self) -> None:
        if not self._resting:
            return
        lease = await self._claim_patiently()
        try:
            await self._catch_up()
        except BaseException:
            await self.store.release(lease)
            raise
        self._lease, self._resting = lease, False

    async def _claim_patiently(self) -> Lease:
        """Whoever answers an approval holds the session for a moment."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await self.store.claim(self.session, this_process())
            except JournalError as error:
                if error.code != "session_busy" or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(PAUSE)

    async def _append(self, entries: Sequence[Entry]) -> None:
        async with self._locked():
            await self._wake()
            if self.fenced:
                raise errors.fenced(self.session)
            encoded = [EncodedEntry.of(entry) for entry in entries]
            if len(encoded) > 1 or not self.state.surely_takes(encoded[0].entry):
                refuse_misfits(self.state, [one.entry for one in encoded])
            try:
                last = await self.store.append(self._lease, encoded)
            except JournalError as error:
                self.fenced = error.code == "fenced"
                raise
            except asyncio.CancelledError:
                await outlast(asyncio.ensure_future(self._catch_up()))
                raise
            if last - len(encoded) != self.state.last_seq:
                await self._catch_up()  # a write that was reported as failed had reached the disk after all
                return
            for seq, one in enumerate(encoded, last - len(encoded) + 1):
                self.state.apply(seq, one.entry)

    async def _append_in_turn(self, entries: Sequence[Entry]) -> None:
        """Others are writing, and the wait for our turn must not be cut short either."""
        writing = asyncio.ensure_future(self._append(entries))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await outlast(writing)
            raise

    async def _catch_up(self) -> None:
        for record in await self.store.read(self.session, after=self.state.last_seq):
            self.state.apply(record.seq, record.entry)

    async def _rewind(self, to: int | None, what: str) -> None:
        if to is None:
            why = "A turn is running." if self.state.in_turn else f"There is nothing to {what}."
            hint = "Cancel it first." if self.state.in_turn else ""
            raise UsageError(why, code=f"nothing_to_{what}", hint=hint)
        await self.append(Rewound(to))

    async def _beat(self, every: float) -> None:
        while not self.fenced:
            await asyncio.sleep(every)
            if self._resting:
                continue
            # Unless it is fenced, the store may answer next time, before the lease is over.
            with suppress(JournalError):
                await self.renew()


async def fork(store: Store, session: str, *, at: int | None = None, session_id: str = "") -> Journal:
    """A new session with all entries of another, which may be open elsewhere; so its turns can be undone here too.

    A turn that runs there has no end here: the copy has it cancelled. What was spent there is not counted here.
    """
    records = (await store.read(session))[:at]
    state = replay(records)
    if at is not None:
        state.conversation_after(at)
    started = structs.replace(state.started, parent=Link(session, seq=state.last_seq))
    more = [*(_unpaid(record.entry) for record in records[1:]), *closing_entries(state)]
    return await Journal.start(store, started, session_id, more=more)


def _unpaid(entry: Entry) -> Entry:
    match entry:
        case ModelReplied() | CallEnded() | Compacted():
            return structs.replace(entry, usage=Usage(), cost=None)
        case _:
            return entry


def new_session_id() -> str:
    return uuid4().hex[:12]

"""One session while it is open, and the replay that makes its state of its entries.

The state is a fold: nothing in it was put there by anyone but an entry, so what is on disk is all there is to know.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Self, assert_never
from uuid import uuid4

from msgspec import structs

from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.usage import Usage
from segue.errors import JournalError
from segue.sessions.entries import (
    Adopted,
    CallBegun,
    CallEnded,
    CallsScheduled,
    Compacted,
    Entry,
    ModelReplied,
    NoteAdded,
    Record,
    Rewound,
    SessionStarted,
    SettingsChanged,
    Switched,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.store import Lease, Owner, Store

if TYPE_CHECKING:
    from collections.abc import Iterable


class State:
    """A session's conversation and ledger, and what else its entries say."""

    def __init__(self) -> None:
        self.started = SessionStarted()
        self.conversation = Conversation()
        self.ledger = Ledger()
        self.model = ""
        self.title = ""
        self.options = Options()
        self.usage = Usage()
        self.cost: float | None = None
        self.turns = 0
        self.last_seq = 0
        self.in_turn = False
        """A turn has begun and has no end yet."""
        self.begun: set[str] = set()
        """Calls whose tool was started."""
        self._after: dict[int, Conversation] = {}
        """The conversation at the places one can go back to: where a turn ended, or began without one."""

    def apply(self, seq: int, entry: Entry) -> None:  # noqa: C901, PLR0912 - one case per entry, each a line or two
        """Take an entry in. Raises JournalError where it does not fit what happened before."""
        self.last_seq = seq
        match entry:
            case SessionStarted():
                self.started, self.model, self.title = entry, entry.model, entry.title
                self.options = entry.options
                self._become(Conversation(system=entry.system))
            case Adopted():
                self.ledger = Ledger((*self.ledger.values(), *entry.interactions))
                self._become(entry.conversation)
            case UserSaid(message, model):
                if not self.in_turn:
                    self._after[seq - 1] = self.conversation
                self.in_turn, self.turns = True, self.turns + 1
                self.model = model or self.model
                self._append(message)
            case NoteAdded(message):
                self._append(message)
            case ModelReplied():
                self._append(entry.message)
                self._count(entry)
            case CallsScheduled(calls):
                for call in calls:
                    self.ledger.schedule(call)
            case CallBegun(call_id):
                self.begun.add(call_id)
            case CallEnded(result):
                self.ledger.settle(result)
            case ToolsAnswered(call_ids):
                self._append(self._answers(call_ids))
            case TurnEnded():
                self.in_turn = False
                self._after[seq] = self.conversation
            case Switched():
                self.model = entry.model
            case Compacted():
                self._become(entry.conversation)
                self._after[seq] = self.conversation
            case Rewound(to):
                self._rewind(to)
            case SettingsChanged():
                self._change(entry)
            case _:
                assert_never(entry)

    def open_calls(self) -> tuple[str, ...]:
        """Calls that were scheduled and have no end, in the order they were scheduled."""
        return tuple(call_id for call_id, interaction in self.ledger.items() if not interaction.finished)

    def boundaries(self) -> tuple[int, ...]:
        """The entries one can rewind to, oldest first."""
        return tuple(sorted(self._after))

    def conversation_after(self, seq: int) -> Conversation:
        """The conversation as it was at a boundary."""
        found = self._after.get(seq)
        if found is None:
            raise JournalError(
                f"No turn ended at entry {seq}.",
                code="no_boundary",
                hint="Rewind to the end of a turn.",
            )
        return found

    def _append(self, message: Message) -> None:
        self.conversation = self.conversation.append(message)

    def _become(self, conversation: Conversation) -> None:
        """Another conversation, in which no id that was given before is given again."""
        minted = max(conversation.minted, self.conversation.minted)
        self.conversation = structs.replace(conversation, minted=minted)

    def _rewind(self, to: int) -> None:
        self._become(self.conversation_after(to))
        self.in_turn = False

    def _answers(self, call_ids: tuple[str, ...]) -> Message:
        results = [self.ledger[call_id].result for call_id in call_ids if call_id in self.ledger]
        whole = tuple(result for result in results if result is not None)
        if len(whole) != len(call_ids):
            raise JournalError(
                "A batch was answered before all of its calls had ended.",
                code="unanswered_call",
                hint="The journal was written by something else than segue, or is damaged.",
            )
        return Message("tool", whole)

    def _change(self, entry: SettingsChanged) -> None:
        self.title = self.title if entry.title is None else entry.title
        self.options = self.options if entry.options is None else entry.options
        if entry.system is not None:
            self.conversation = structs.replace(self.conversation, system=entry.system)

    def _count(self, entry: ModelReplied) -> None:
        counted = {
            field: (getattr(self.usage, field) or 0) + told
            for field in Usage.__struct_fields__
            if (told := getattr(entry.usage, field)) is not None
        }
        self.usage = structs.replace(self.usage, **counted)
        if entry.cost is not None:
            self.cost = (self.cost or 0.0) + entry.cost


def replay(records: Iterable[Record]) -> State:
    """The state of a session from its entries alone."""
    state = State()
    for record in records:
        state.apply(record.seq, record.entry)
    return state


class Journal:
    """A session of which we are the writer: every entry is durable before `append` comes back."""

    def __init__(self, store: Store, lease: Lease, state: State) -> None:
        self.store = store
        self.state = state
        self._lease = lease

    @classmethod
    async def start(cls, store: Store, started: SessionStarted, session: str = "") -> Self:
        """A new session."""
        lease = await store.create(session or new_session_id(), started, this_process())
        state = State()
        state.apply(1, started)
        return cls(store, lease, state)

    @classmethod
    async def resume(cls, store: Store, session: str, *, take_over: bool = False) -> Self:
        """An existing session. What a crash left open is closed: its calls as interrupted, its turn as cancelled."""
        lease = await store.claim(session, this_process(), take_over=take_over)
        journal = cls(store, lease, replay(await store.read(session)))
        await journal.close_turn()
        return journal

    @property
    def session(self) -> str:
        return self._lease.session

    async def append(self, *entries: Entry) -> None:
        last = await self.store.append(self._lease, entries)
        for seq, entry in enumerate(entries, last - len(entries) + 1):
            self.state.apply(seq, entry)

    async def renew(self) -> None:
        await self.store.renew(self._lease)

    async def close_turn(self) -> None:
        """End a turn that was left open, as its own process would have ended it when it was told to stop."""
        from segue.sessions.recovery import closing_entries  # noqa: PLC0415 - only a crash needs it

        if entries := closing_entries(self.state):
            await self.append(*entries)

    async def close(self) -> None:
        await self.store.release(self._lease)


def new_session_id() -> str:
    return uuid4().hex[:12]


def this_process() -> Owner:
    return Owner(socket.gethostname(), os.getpid(), uuid4().hex)

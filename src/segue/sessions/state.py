"""The state that the entries of a session add up to, and its replay.

The state is a fold: nothing in it was put there by anyone but an entry, so what is on disk is all there is to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, final

from msgspec import Struct, structs

from segue.conversation.ids import next_ordinal
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.usage import Usage
from segue.errors import JournalError
from segue.sessions import errors
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
    TurnFinish,
    TurnResumed,
    UserSaid,
)
from segue.sessions.validation import refuse_misfits

if TYPE_CHECKING:
    from collections.abc import Iterable


@final
class _Place(Struct, frozen=True):
    """Somewhere one can go back to: the first `count` messages of a line of history."""

    line: int
    count: int
    before: int
    """The place before the turn that led here; 0 where there is none."""
    finish: TurnFinish | None = None
    """How that turn ended."""


class State:
    """A session's conversation and ledger, and what else its entries hold."""

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
        """Turns that ever began here, undone ones included."""
        self.last_seq = 0
        self.in_turn = False
        """A turn has begun and has no end yet."""
        self.answered = False
        """The last reply left nothing to do."""
        self.begun: set[str] = set()
        """Calls whose tool was started."""
        self._open: dict[str, None] = {}
        self._places: dict[int, _Place] = {}
        self._here = 0
        self._before = 0
        """Where an undo of the turn that runs will go."""
        self._undone: list[int] = []
        """Where undo came from, the latest last: where redo goes."""
        # Messages that were replaced, by line. A place is a length, not a copy: long sessions have many.
        self._former: list[tuple[Message, ...]] = []

    def apply(self, seq: int, entry: Entry) -> None:  # noqa: C901, PLR0912 - one case per entry, each a line or two
        """Take in an entry that fits what happened before."""
        self.last_seq = seq
        match entry:
            case SessionStarted():
                self._start(entry)
                self._arrive(seq, before=0)
            case Adopted():
                self.ledger = Ledger((*self.ledger.values(), *entry.interactions))
                self._become(entry.conversation)
                self._arrive(seq, before=0)
            case UserSaid(message, model):
                self.turns += not self.in_turn
                self._begin(model, before=self._here)
                self._append(message)
            case NoteAdded(message):
                self._append(message)
            case ModelReplied():
                self._reply(entry)
            case CallsScheduled(calls):
                for call in calls:
                    if not self.ledger.schedule(call).finished:
                        self._open[call.id] = None
            case CallBegun(call_id):
                self.begun.add(call_id)
            case CallEnded(result, usage, cost):
                self.ledger.settle(result)
                self._count(usage, cost)
                self._open.pop(result.call_id, None)
            case ToolsAnswered(call_ids):
                self._append(self._answers(call_ids))
            case TurnResumed(model):
                self._begin(model, before=self._places[self._here].before)
            case TurnEnded(finish):
                if self.in_turn:
                    self._arrive(seq, before=self._before, finish=finish)
                self.in_turn = False
            case Switched():
                self.model = entry.model
            case Compacted():
                self._become(entry.conversation)
                self._count(entry.usage, entry.cost)
                if not self.in_turn:
                    here = self._places[self._here]
                    self._arrive(seq, before=here.before, finish=here.finish)
            case Rewound(to):
                self._rewind(to)
            case SettingsChanged():
                self._change(entry)
            case _:
                assert_never(entry)

    def open_calls(self) -> tuple[str, ...]:
        """Calls that were scheduled and have no end, in the order they were scheduled."""
        return tuple(self._open)

    def boundaries(self) -> tuple[int, ...]:
        """The entries one can rewind to, oldest first: the start, ends of turns, compactions between turns."""
        return tuple(sorted(self._places))

    @property
    def finish(self) -> TurnFinish | None:
        """How the last turn that was not undone ended; None if there is none."""
        return self._places[self._here].finish if self._here else None

    @property
    def undo_to(self) -> int | None:
        """The entry after which the last turn had not begun; None if there is no turn to undo."""
        if self.in_turn or not self._here:
            return None
        return self._places[self._here].before or None

    @property
    def redo_to(self) -> int | None:
        """The entry that the last undo left; None once a new turn has begun."""
        return self._undone[-1] if self._undone and not self.in_turn else None

    def conversation_after(self, seq: int) -> Conversation:
        """The conversation as it was at a boundary, under today's system prompt."""
        place = self._places.get(seq)
        if place is None:
            raise JournalError(
                f"No turn ended at entry {seq}.",
                code="no_boundary",
                hint="Rewind to the end of a turn.",
            )
        line = self.conversation.messages if place.line == len(self._former) else self._former[place.line]
        return structs.replace(self.conversation, messages=line[: place.count])

    def _start(self, entry: SessionStarted) -> None:
        self.started, self.model, self.title = entry, entry.model, entry.title
        self.options = entry.options
        self.conversation = Conversation(system=entry.system)

    def _begin(self, model: str, *, before: int) -> None:
        self.in_turn, self.answered, self._before = True, False, before
        self._undone.clear()
        self.model = model or self.model

    def _reply(self, entry: ModelReplied) -> None:
        if entry.message.blocks:  # a reply may cost something and be empty
            self._append(entry.message)
        self.answered = entry.finish == "stop" and not entry.message.calls
        self._count(entry.usage, entry.cost)

    def _append(self, message: Message) -> None:
        self.conversation = self.conversation.append(message)
        self.answered = False

    def _arrive(self, seq: int, *, before: int, finish: TurnFinish | None = None) -> None:
        self._here = seq
        self._places[seq] = _Place(len(self._former), len(self.conversation.messages), before, finish)

    def _become(self, conversation: Conversation) -> None:
        """Another conversation, in which no id that was given before is given again."""
        minted = max(conversation.minted, self.conversation.minted)
        for call in (call for message in conversation.messages for call in message.calls):
            minted = max(minted, next_ordinal(0, call.id))
        for call_id in self.ledger:
            minted = max(minted, next_ordinal(0, call_id))
        self._former.append(self.conversation.messages)
        self.conversation = structs.replace(conversation, minted=minted)

    def _rewind(self, to: int) -> None:
        if self.redo_to == to:
            self._undone.pop()
        elif self._leads_here(to):
            self._undone.append(self._here)
        else:
            self._undone.clear()
        self._become(self.conversation_after(to))
        self._here = to

    def _leads_here(self, to: int) -> bool:
        place = self._here
        while place and place != to:
            place = self._places[place].before
        return place == to

    def _answers(self, call_ids: tuple[str, ...]) -> Message:
        results = (self.ledger[call_id].result for call_id in call_ids)
        return Message("tool", tuple(result for result in results if result is not None))

    def _change(self, entry: SettingsChanged) -> None:
        self.title = self.title if entry.title is None else entry.title
        self.options = self.options if entry.options is None else entry.options
        if entry.system is not None:
            self.conversation = structs.replace(self.conversation, system=entry.system)

    def _count(self, usage: Usage, cost: float | None) -> None:
        self.usage = self.usage.plus(usage)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


def replay(records: Iterable[Record]) -> State:
    """The state of a session from its entries alone. Raises JournalError where they do not fit each other."""
    state = State()
    for record in records:
        if record.seq != state.last_seq + 1:
            raise errors.damaged(f"entry {record.seq}", f"it follows entry {state.last_seq}")
        refuse_misfits(state, (record.entry,))
        state.apply(record.seq, record.entry)
    return state

"""The state that the entries of a session add up to, its replay, and whether an entry fits it.

The state is a fold: nothing in it was put there by anyone but an entry, so what is on disk is all there is to know.
Entries are checked before they are written, for they cannot be removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct

from segue.conversation.blocks import ToolResult, status_of
from segue.conversation.ids import next_ordinal
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation, Message, mint_missing
from segue.conversation.options import NO_OPTIONS
from segue.conversation.usage import NO_USAGE, Usage
from segue.errors import JournalError
from segue.sessions import errors
from segue.sessions.entries import (
    Adopted,
    ApprovalAsked,
    ApprovalGiven,
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
    ToolGrant,
    ToolsAnswered,
    TurnEnded,
    TurnFinish,
    TurnResumed,
    UserSaid,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


def refuse_misfits(state: State, entries: Sequence[Entry]) -> None:
    """Raises JournalError at the first entry that does not fit the state and the entries before it."""
    started, in_turn = state.last_seq > 0, state.in_turn
    calls = _Calls({*state.open_calls()}, set())
    for entry in entries:
        if started is (type(entry) is SessionStarted):
            raise errors.misfit("A session starts once, with its first entry.")
        started = True
        match entry:
            case CallsScheduled() | CallBegun() | CallEnded() | ToolsAnswered():
                _check_calls(entry, calls, state.ledger)
            case ApprovalAsked() | ApprovalGiven():
                _check_waiting(entry, calls)
            case TurnEnded():
                if calls.open:
                    first = min(calls.open)
                    raise errors.misfit(f"The turn ended before its call {first!r} had.", "unanswered_call")
                in_turn = False
            case UserSaid() | TurnResumed():
                in_turn = True
            case Rewound(to):
                if in_turn:
                    raise errors.misfit("Nothing can be undone while a turn is running.", "turn_open")
                state.conversation_after(to)
            case Adopted():
                if in_turn or any(one.call.id in state.ledger for one in entry.interactions):
                    raise errors.misfit("A history is adopted before the session has calls of its own.")
            case _:
                pass


@final
class _Calls(Struct):
    """What became of calls by entries that the state has not taken in yet."""

    open: set[str]
    ended: set[str]


def _check_waiting(entry: ApprovalAsked | ApprovalGiven, calls: _Calls) -> None:
    for call_id in entry.call_ids if isinstance(entry, ApprovalAsked) else (entry.call_id,):
        if call_id not in calls.open:
            raise errors.misfit(f'No call "{call_id}" waits for an answer.', "unknown_call")


def _check_calls(
    entry: CallsScheduled | CallBegun | CallEnded | ToolsAnswered, calls: _Calls, ledger: Ledger
) -> None:
    match entry:
        case CallsScheduled(scheduled):
            if not all(call.id for call in scheduled):
                raise errors.misfit("A call was scheduled without an id.", "call_without_id")
            calls.open |= {call.id for call in scheduled if not ledger.results((call.id,))}
        case CallBegun(call_id) | CallEnded(ToolResult(call_id)):
            if not (call_id in calls.open or call_id in calls.ended or call_id in ledger):
                raise errors.misfit(f'The call "{call_id}" was never scheduled.', "unknown_call")
            if type(entry) is CallEnded:
                if status_of(entry.result) == "pending":
                    raise errors.misfit(f'The result of call "{call_id}" is empty.', "empty_result")
                calls.ended.add(call_id)
                calls.open.discard(call_id)
        case ToolsAnswered(call_ids):
            for call_id in call_ids:
                if call_id not in calls.ended and not ledger.results((call_id,)):
                    raise errors.misfit(
                        f'A batch was answered before its call "{call_id}" had ended.', "unanswered_call"
                    )


@final
class _Place(Struct, frozen=True):
    """Somewhere one can go back to: the first `count` messages of a line of history."""

    line: int
    count: int
    before: int
    """The place before the turn that led here; 0 where there is none."""
    finish: TurnFinish | None = None
    """How that turn ended."""


@final
class _Line(Struct):
    """A line of history. After a compaction its first `count` messages stand for those that were before."""

    messages: list[Message]
    compacted: tuple[Message, ...] = ()
    count: int = 0


class State:
    """A session's conversation and ledger, and what else its entries hold."""

    def __init__(self) -> None:
        self.started = SessionStarted()
        self.ledger = Ledger()
        self.model = ""
        self.title = ""
        self.options = NO_OPTIONS
        self.tools = ToolGrant()
        """What the user gave this session. It is no permission: a journal may come from elsewhere."""
        self.agent = ""
        """Whom the conversation was handed over to; "" for whoever it began with."""
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
        self.approvals: dict[str, ApprovalGiven | None] = {}
        """What somebody was asked about calls of the batch that is open, and the answers; None: not yet."""
        self.turn_key = ""
        """Of the message that the last turn began with."""
        self.counted: dict[str, tuple[int, int]] = {}
        """By model: how many messages of the conversation its last request had, and the input tokens that were counted in it."""
        self._open: dict[str, None] = {}
        self._places: dict[int, _Place] = {}
        self._here = 0
        self._before = 0
        """Where an undo of the turn that runs will go."""
        self._undone: list[int] = []
        """Where undo came from, the latest last: where redo goes."""
        # The present line is the last. A place is a length, not a copy: long sessions have many.
        self._lines = [_Line([])]
        self._system = ""
        self._minted = 0
        self._counted_writes = 0
        """Of the ledger: their ids are below `_minted`."""
        self._conversation: Conversation | None = None
        """Composed when it is asked for: a replay that composed one per message would be quadratic."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]  # it changes with every entry

    @property
    def conversation(self) -> Conversation:
        messages = self._lines[-1].messages
        if self._conversation is None or len(self._conversation.messages) != len(messages):
            self._conversation = Conversation(tuple(messages), self._system, self._minted)
        return self._conversation

    def apply(self, seq: int, entry: Entry) -> None:
        """Take in an entry that fits what happened before."""
        self.last_seq = seq
        # Looked up, not matched: a replay comes here for every entry, and trying one case after the other takes longer
        # than all of them do.
        _APPLY[type(entry)](self, seq, entry)

    def surely_takes(self, entry: Entry) -> bool:
        """Whether an entry obviously fits what happened before; False where only the full check can decide."""
        # Not matched, for the same reason.
        if not self.last_seq:
            return type(entry) is SessionStarted
        if type(entry) in _ALWAYS_FIT:
            return True
        if type(entry) is CallBegun:
            return entry.call_id in self._open
        if type(entry) is CallEnded:
            result = entry.result
            return result.call_id in self._open and status_of(result) != "pending"
        if type(entry) is CallsScheduled:
            return all([call.id for call in entry.calls])  # noqa: C419 - twice as fast
        if type(entry) is ToolsAnswered:
            return len(self.ledger.results(entry.call_ids)) == len(entry.call_ids)
        return type(entry) is TurnEnded and not self._open

    @property
    def history(self) -> Conversation:
        """The whole conversation, for people: compaction makes it shorter only for models."""
        line = self._lines[-1]
        messages = (*line.compacted, *line.messages[line.count :])
        return Conversation(messages, self._system, self._minted)

    def open_calls(self) -> tuple[str, ...]:
        """Calls that were scheduled and have no end, in the order they were scheduled."""
        return tuple(self._open)

    def boundaries(self) -> tuple[int, ...]:
        """The entries one can rewind to, oldest first: the start, ends of turns, compactions between turns."""
        return tuple(sorted(self._places))

    @property
    def waits(self) -> bool:
        """Whether the turn that is open was left on purpose, until somebody says whether its calls may run; none has begun."""
        return bool(self.approvals) and self.begun.isdisjoint(self._open)

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
        return Conversation(
            tuple(self._lines[place.line].messages[: place.count]), self._system, self._minted
        )

    def _start(self, seq: int, entry: SessionStarted) -> None:
        self.started, self.model, self.title = entry, entry.model, entry.title
        self.options = entry.options
        self._system, self._conversation = entry.system, None
        self._arrive(seq, before=0)

    def _adopt(self, seq: int, entry: Adopted) -> None:
        self.ledger = Ledger((*self.ledger.values(), *entry.interactions))
        self._counted_writes = 0
        self._become(entry.conversation)
        self._arrive(seq, before=0)

    def _take_prompt(self, _seq: int, entry: UserSaid) -> None:
        self.turns += not self.in_turn
        self._begin(entry.model, before=self._here)
        self.turn_key = entry.key
        self._append(entry.message)

    def _take_note(self, _seq: int, entry: NoteAdded) -> None:
        self._append(entry.message)

    def _schedule(self, _seq: int, entry: CallsScheduled) -> None:
        for call in entry.calls:
            if self.ledger.schedule(call).result is None:
                self._open[call.id] = None

    def _ask_approval(self, _seq: int, entry: ApprovalAsked) -> None:
        self.approvals |= dict.fromkeys(entry.call_ids)

    def _give_approval(self, _seq: int, entry: ApprovalGiven) -> None:
        self.approvals[entry.call_id] = entry

    def _begin_call(self, _seq: int, entry: CallBegun) -> None:
        self.begun.add(entry.call_id)

    def _end_call(self, _seq: int, entry: CallEnded) -> None:
        self.ledger.settle(entry.result)
        self._open.pop(entry.result.call_id, None)
        self._count(entry.usage, entry.cost)

    def _answer(self, _seq: int, entry: ToolsAnswered) -> None:
        self._lines[-1].messages.append(Message("tool", tuple(self.ledger.results(entry.call_ids))))
        self.answered = False
        self.approvals.clear()

    def _end_turn(self, seq: int, entry: TurnEnded) -> None:
        if self.in_turn:
            self._arrive(seq, before=self._before, finish=entry.finish)
        self.in_turn = False

    def _resume(self, _seq: int, entry: TurnResumed) -> None:
        self._begin(entry.model, before=self._places[self._here].before)

    def _switch(self, _seq: int, entry: Switched) -> None:
        self.model = entry.model

    def _begin(self, model: str, *, before: int) -> None:
        self.in_turn, self.answered, self._before = True, False, before
        self._undone.clear()
        self.model = model or self.model

    def _reply(self, _seq: int, entry: ModelReplied) -> None:
        message = entry.message
        if message.blocks:  # a reply may cost something and be empty
            if message.origin is not None and entry.usage.input_tokens:
                self.counted[message.origin.model] = (
                    len(self._lines[-1].messages),
                    entry.usage.input_tokens,
                )
            self._append(message)
        self.answered = entry.finish == "stop" and not message.calls
        self._count(entry.usage, entry.cost)

    def _append(self, message: Message) -> None:
        settled, self._minted = mint_missing(message, self._minted)
        self._lines[-1].messages.append(settled)
        self.answered = False

    def _compact(self, seq: int, entry: Compacted) -> None:
        self._become(entry.conversation, self.history.messages)
        self._count(entry.usage, entry.cost)
        if not self.in_turn:
            here = self._places[self._here]
            self._arrive(seq, before=here.before, finish=here.finish)

    def _arrive(self, seq: int, *, before: int, finish: TurnFinish | None = None) -> None:
        self._here = seq
        self._places[seq] = _Place(len(self._lines) - 1, len(self._lines[-1].messages), before, finish)

    def _become(self, conversation: Conversation, compacted: tuple[Message, ...] | None = None) -> None:
        self._minted = max(self._minted, conversation.minted)
        for message in conversation.messages:
            for call in message.calls:
                self._count_id(call.id)
        self._system = conversation.system
        count = 0 if compacted is None else len(conversation.messages)
        self._continue(_Line(list(conversation.messages), compacted or (), count))

    def _continue(self, line: _Line) -> None:
        """A new line of history begins. No id that was given before is given again in it."""
        for call_id in self.ledger.written_since(self._counted_writes):
            self._count_id(call_id)
        self._counted_writes = self.ledger.writes
        self._lines.append(line)
        self.counted.clear()
        self._conversation = None

    def _count_id(self, call_id: str) -> None:
        self._minted = max(self._minted, next_ordinal(0, call_id))

    def _rewind(self, _seq: int, entry: Rewound) -> None:
        to = entry.to
        if self.redo_to == to:
            self._undone.pop()
        elif self._leads_here(to):
            self._undone.append(self._here)
        else:
            self._undone.clear()
        place = self._places[to]
        line = self._lines[place.line]
        self._continue(_Line(line.messages[: place.count], line.compacted, line.count))
        self._here = to

    def _leads_here(self, to: int) -> bool:
        place = self._here
        while place and place != to:
            place = self._places[place].before
        return place == to

    def _change(self, _seq: int, entry: SettingsChanged) -> None:
        self.title = self.title if entry.title is None else entry.title
        self.options = self.options if entry.options is None else entry.options
        self.tools = self.tools if entry.tools is None else entry.tools
        self.agent = self.agent if entry.agent is None else entry.agent
        if entry.system is not None:
            self._system, self._conversation = entry.system, None

    def _facts(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_conversation"}

    def _count(self, usage: Usage, cost: float | None) -> None:
        if usage is not NO_USAGE and usage != NO_USAGE:
            self.usage = self.usage.plus(usage)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


_ALWAYS_FIT: Final = frozenset(
    {UserSaid, NoteAdded, ModelReplied, TurnResumed, Switched, Compacted, SettingsChanged}
)
_APPLY: Final[Mapping[type[Entry], Callable[[State, int, Any], None]]] = {
    SessionStarted: State._start,
    Adopted: State._adopt,
    UserSaid: State._take_prompt,
    NoteAdded: State._take_note,
    ModelReplied: State._reply,
    CallsScheduled: State._schedule,
    ApprovalAsked: State._ask_approval,
    ApprovalGiven: State._give_approval,
    CallBegun: State._begin_call,
    CallEnded: State._end_call,
    ToolsAnswered: State._answer,
    TurnEnded: State._end_turn,
    TurnResumed: State._resume,
    Switched: State._switch,
    Compacted: State._compact,
    Rewound: State._rewind,
    SettingsChanged: State._change,
}


def replay(records: Iterable[Record]) -> State:
    """The state of a session from its entries alone. Raises JournalError where they do not fit each other."""
    state = State()
    for seq, record in enumerate(records, 1):
        if record.seq != seq:
            raise errors.damaged(f"entry {record.seq}", f"it follows entry {seq - 1}")
        entry = record.entry
        if not state.surely_takes(entry):
            refuse_misfits(state, (entry,))
        _APPLY[type(entry)](state, seq, entry)
        state.last_seq = seq
    return state

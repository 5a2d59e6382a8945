"""A history before it is composed: blocks by speaker, with every result at the call it belongs to."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import Code, Media, Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.json_safe import encodable
from segue.transcript.repairs import Kind, Repair
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@final
class ResultDraft(Struct, eq=False):
    """A result and where it was found."""

    result: ToolResult
    message: int
    block: int


@final
class CallDraft(Struct, eq=False):
    """A call with every result that claims to be its own."""

    call: ToolCall
    key: str
    draft: ModelDraft
    message: int
    block: int
    order: int = 0
    """Its place among the calls of its draft."""
    results: list[ResultDraft] = []
    answered: bool = False
    """Whether one of them is real."""
    told: bool = False
    """Whether one of them is more than a placeholder."""
    wire_id: str = ""


@final
class CallQueue:
    """Calls in order, found by name from either end without looking through all of them.

    Those that are `done` leave the queue for good. A name that is missing, on either side, agrees with any.
    """

    __slots__ = ("_by_name",)

    def __init__(self, calls: Iterable[CallDraft] = ()) -> None:
        self._by_name: dict[str | None, deque[CallDraft]] = {}
        for call in calls:
            self.add(call)

    def add(self, call: CallDraft) -> None:
        for name in (call.call.name, None):
            self._by_name.setdefault(name, deque()).append(call)

    def first(self, name: str, done: Callable[[CallDraft], bool]) -> CallDraft | None:
        return min(self._ends(name, 0, done), key=_place, default=None)

    def last(self, name: str, done: Callable[[CallDraft], bool]) -> CallDraft | None:
        return max(self._ends(name, -1, done), key=_place, default=None)

    def _ends(self, name: str, end: int, done: Callable[[CallDraft], bool]) -> Iterator[CallDraft]:
        for known in (name, "") if name else (None,):
            calls = self._by_name.get(known)
            while calls and done(calls[end]):
                del calls[end]
            if calls:
                yield calls[end]


def _place(call: CallDraft) -> tuple[int, int]:
    return call.message, call.block


@final
class ModelDraft(Struct, eq=False):
    """The blocks of a model before the next speaker. `orphan`: it exists only to hold results without a call."""

    message: int
    origin: Origin | None
    orphan: bool = False
    items: list[Text | Media | Code | Reasoning | CallDraft] = []
    calls: list[CallDraft] = []
    last_answered: int = -1
    """Order of the last call that got a result."""
    _waiting: dict[str | None, CallQueue] | None = None
    _unanswered: dict[str | None, CallQueue] | None = None

    def add(self, call: CallDraft) -> None:
        call.order = len(self.calls)
        self.items.append(call)
        self.calls.append(call)
        for queues in (self._waiting, self._unanswered):  # in use only where ids alone do not decide
            if queues is not None:
                _enqueue(call, queues)

    def waiting(self, key: str | None) -> CallQueue:
        """The calls with this key (None: with any) that have no result yet."""
        if self._waiting is None:
            self._waiting = _queues(call for call in self.calls if not call.results)
        return self._waiting.setdefault(key, CallQueue())

    def unanswered(self, key: str | None) -> CallQueue:
        """The calls with this key (None: with any) that have placeholders at most."""
        if self._unanswered is None:
            self._unanswered = _queues(call for call in self.calls if not call.told)
        return self._unanswered.setdefault(key, CallQueue())


def _queues(calls: Iterable[CallDraft]) -> dict[str | None, CallQueue]:
    queues: dict[str | None, CallQueue] = {}
    for call in calls:
        _enqueue(call, queues)
    return queues


def _enqueue(call: CallDraft, queues: dict[str | None, CallQueue]) -> None:
    for key in (call.key, None):
        queues.setdefault(key, CallQueue()).add(call)


@final
class UserDraft(Struct, eq=False):
    """Blocks of the user, or what lay beside tool results."""

    message: int
    blocks: list[Text | Media | Code]
    instruction: bool = False


Draft: TypeAlias = ModelDraft | UserDraft


@final
class Note(Struct, gc=False, eq=False):
    """A repair whose emitted ids are not known yet."""

    kind: Kind
    message: int
    block: int = -1
    call: CallDraft | AnsweredCall | None = None
    decision: str = ""
    reason: str = ""
    calls: tuple[CallDraft | AnsweredCall, ...] = ()
    """Where it concerns several."""

    @property
    def concerned(self) -> tuple[CallDraft | AnsweredCall, ...]:
        return self.calls if self.call is None else (self.call,)

    @property
    def path(self) -> str:
        return (
            f"messages[{self.message}]"
            if self.block < 0
            else f"messages[{self.message}].blocks[{self.block}]"
        )


def repair_from(note: Note, dialect: str) -> Repair:
    return repair_of(note.kind, dialect, note.path, note.concerned, note.decision, note.reason)


def repair_of(
    kind: Kind,
    dialect: str,
    path: str,
    calls: Iterable[CallDraft | AnsweredCall],
    decision: str = "",
    reason: str = "",
) -> Repair:
    """A repair with the ids of the calls that it concerns."""
    ids: list[str] = []
    emitted: list[str] = []
    for call in calls:
        if type(call) is AnsweredCall:
            call_id, wire_id = call.call_id, call.id
        else:
            call_id, wire_id = call.call.id or call.key, call.wire_id
        ids.append(encodable(call_id))
        if wire_id:
            emitted.append(wire_id)
    sent = tuple(emitted)
    return Repair(kind, dialect, path, tuple(ids), sent, sent, decision, reason)

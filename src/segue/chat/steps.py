"""The turn as steps: what has to be done next, as data, and what came of it.

`next_step` says what a turn needs; somebody does it, in this process or in another, and `take` gives the state after it.
What comes of a step are the entries that it adds to the journal. So the state of a turn can always be found from its journal,
and whoever goes on with it finds the same step under the same key. Nothing here looks at a clock, at chance or at the world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from msgspec import Struct, structs

from segue.conversation.blocks import Reason, ToolCall
from segue.limits import MAX_EXCHANGES
from segue.sessions.entries import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    CallsScheduled,
    Entry,
    ModelReplied,
    NoteAdded,
    Record,
    Switched,
    ToolsAnswered,
    TurnEnded,
    TurnFinish,
    TurnResumed,
    UserSaid,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segue.conversation.events import FinishReason

_ENDS: Final[Mapping[FinishReason, TurnFinish]] = {
    "stop": "complete",
    "tool_calls": "complete",
    "length": "length",
    "content_filter": "content_filter",
    "cancelled": "cancelled",
    "error": "error",
}
_CUT: Final[Mapping[FinishReason, Reason]] = {
    "length": "provider_error",
    "content_filter": "provider_error",
    "error": "provider_error",
    "cancelled": "cancelled_by_user",
}
"""Replies that broke off. Their last call may be half of what was meant, so none of them runs."""


@final
class Ask(Struct, frozen=True, tag="ask"):
    """The model must be asked. It is asked again if its reply was not stored."""

    key: str
    """Names this step within its session, in every process."""


@final
class RunTools(Struct, frozen=True, omit_defaults=True, tag="run_tools"):
    """The calls of a reply must be brought to an end, as one batch."""

    key: str
    calls: tuple[ToolCall, ...]
    closed: Reason | None = None
    """None of them runs, all end with this reason."""
    scheduled: bool = False
    """Somebody has begun with them: what began and did not end is run again only if its tool may be repeated."""


@final
class Wait(Struct, frozen=True, tag="wait"):
    """Somebody must approve or refuse these calls."""

    key: str
    calls: tuple[ToolCall, ...]


@final
class Sleep(Struct, frozen=True, tag="sleep"):
    """Nobody can be asked for so many seconds."""

    key: str
    seconds: float


@final
class Done(Struct, frozen=True, tag="done"):
    """The turn is over, or it goes no further by itself."""

    key: str
    finish: TurnFinish


Step: TypeAlias = Ask | RunTools | Wait | Sleep | Done
"""What a turn needs next."""


@final
class Limited(Struct, frozen=True):
    """The provider can be asked again only in so many seconds."""

    seconds: float


@final
class Woken(Struct, frozen=True):
    """The seconds have passed."""


Outcome: TypeAlias = Entry | Limited | Woken
"""The outcome of a step: the entry that it added to the journal, or why it added none."""


@final
class TurnState(Struct, frozen=True, kw_only=True):
    """How far a turn is. `take` makes the next one."""

    turn: int = 0
    """The number of the journal's entry that it began with."""
    limit: int = MAX_EXCHANGES
    """Exchanges with the model that it may have."""
    exchange: int = 1
    """The number of the present one."""
    reply: ModelReplied | None = None
    """The reply whose calls have no results yet."""
    scheduled: bool = False
    cancelled: bool = False
    """Whether one of these calls was stopped by a user."""
    waiting: tuple[str, ...] = ()
    """The ids of the calls whose approval was asked for and not answered yet."""
    pause: float | None = None
    finish: TurnFinish | None = None


def next_step(state: TurnState) -> Step:
    """What has to be done now. The same for the same state, always."""
    place, reply = f"{state.turn}.{state.exchange}", state.reply
    if state.finish is not None:
        return Done(f"{place}.done", state.finish)
    if state.pause is not None:
        return Sleep(f"{place}.sleep", state.pause)
    if reply is None:
        over = state.exchange > state.limit
        return Done(f"{place}.done", "max_turns") if over else Ask(f"{place}.ask")
    calls = reply.message.calls
    if state.waiting:
        return Wait(f"{place}.wait", tuple(call for call in calls if call.id in state.waiting))
    return RunTools(f"{place}.tools", calls, _CUT.get(reply.finish), state.scheduled)


def take(state: TurnState, outcome: Outcome) -> TurnState:
    """The state after something has come of its step."""
    changed: dict[str, Any] = {}
    match outcome:
        case ToolsAnswered():
            return _answered(state)
        case ModelReplied(message, finish):
            changed = {"reply": outcome} if message.calls else {"finish": _ENDS[finish]}
        case NoteAdded() if state.reply is None:  # the model is asked to correct its reply
            changed = {"finish": None}
        case CallsScheduled():
            changed = {"scheduled": True}
        case CallEnded(result) if result.reason == "cancelled_by_user":
            changed = {"cancelled": True}
        case ApprovalAsked(call_ids):
            changed = {"waiting": call_ids}
        case ApprovalGiven(call_id):
            changed = {"waiting": tuple(one for one in state.waiting if one != call_id)}
        case TurnEnded(finish):
            changed = {"finish": finish}
        case Limited(seconds):
            changed = {"pause": seconds}
        case Woken():
            changed = {"pause": None}
        case _:
            return state
    return structs.replace(state, **changed)


def _answered(state: TurnState) -> TurnState:
    finish: TurnFinish | None = None
    if state.reply is not None and state.reply.finish in _CUT:
        finish = _ENDS[state.reply.finish]
    elif state.cancelled:
        finish = "cancelled"
    return TurnState(turn=state.turn, limit=state.limit, exchange=state.exchange + 1, finish=finish)


def routes_left(records: Iterable[Record]) -> frozenset[str]:
    """The routes that the last turn of a session has failed at, and was continued elsewhere."""
    left, moved = set[str](), False
    for record in records:
        match record.entry:
            case Switched(previous=route, reason="failover"):
                left.add(route)
                moved = True
            case UserSaid():
                left.clear()
            case TurnResumed():
                # Only a turn that goes on elsewhere keeps what it has left.
                left = left if moved else set()
                moved = False
            case _:
                moved = False
    return frozenset(left)


def turn_of(records: Iterable[Record], limit: int = MAX_EXCHANGES) -> TurnState:
    """How far the last turn of a session is, from its journal."""
    state, previous = TurnState(finish="complete"), None
    for record in records:
        entry = record.entry
        match entry:
            case UserSaid():
                state = TurnState(turn=record.seq, limit=limit)
            case TurnResumed():
                # A turn that goes on at another member of its router has had some of its exchanges already.
                goes_on = isinstance(previous, Switched) and previous.reason == "failover"
                state = TurnState(turn=record.seq, limit=limit, exchange=state.exchange if goes_on else 1)
            case ModelReplied(message, "error") if not message.blocks:
                pass  # what an attempt has cost; the model is asked again
            case _:
                state = take(state, entry)
        previous = entry
    return state

"""Calls that wait for somebody's answer, of all sessions of a store: the one form in which pages, programs and engines show and
answer them.

A turn that waits has no writer, so whoever answers claims the session for that one entry. The journal decides: the first answer
is written, and every later one learns whose it was.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.conversation.json_safe import encodable
from segue.errors import JournalError, SegueError, UsageError
from segue.sessions import errors
from segue.sessions.entries import (
    ApprovalAsked,
    ApprovalGiven,
    Compacted,
    ModelReplied,
    Record,
    SettingsChanged,
    Switched,
)
from segue.sessions.journal import PATIENCE, PAUSE, Journal
from segue.sessions.state import replay
from segue.sessions.stores.store import check_session_id
from segue.text.redaction import redact_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.sessions.stores.store import SessionInfo, Store

MOST_LISTED: Final = 1000
_MOST_SESSIONS: Final = 10_000
"""That are looked at for a list, last used first."""
_TAIL: Final = 8
"""Entries that are read of a session to see whether it may wait at all: almost none does."""
MOST_BY: Final = 200
MOST_WHY: Final = 4000


@final
class WaitingCall(Struct, frozen=True, kw_only=True):
    """A call that runs when somebody has allowed it."""

    id: str
    name: str
    """Of the tool."""
    arguments: Any
    session: str
    title: str
    """Of the session: its title, or how the user's first message begins."""
    since: float
    """When it was asked for, in seconds since 1970."""
    model: str
    """Who made the call: `provider/model`."""
    agent: str
    """The agent that the conversation was handed over to; "" for the one that it began with."""
    turn: str
    """The engine's id of the turn; "" where no engine performs it."""

    def as_dict(self) -> dict[str, Any]:
        """As JSON, without the keys that this process knows: it leaves for wherever people look."""
        held: dict[str, Any] = msgspec.to_builtins(self)
        return {**held, **{name: redact_known(held[name]) for name in ("name", "arguments", "title")}}


@final
class CallAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody's answer whether a call may run."""

    call_id: str
    allow: bool
    by: str = ""
    """Who answers."""
    why: str = ""
    """For the model to read, where it may not."""


def read_answer(data: bytes | str) -> CallAnswer:
    """An answer as JSON. Raises UsageError `bad_answer`."""
    try:
        return msgspec.json.decode(data, type=CallAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(f"This is no answer: {error}.", "") from error


def check_answer(answer: CallAnswer) -> None:
    """Raises UsageError `bad_answer` where nobody signs it, or where it is too long to keep."""
    if not answer.by.strip():
        raise _bad("The name of the person who answers is missing.", "by")
    for name, text, most in (("by", answer.by, MOST_BY), ("why", answer.why, MOST_WHY)):
        if len(text) > most:
            raise _bad(f"More than {most} characters.", name)


def status_of(error: SegueError) -> int:
    """The status of HTTP with which an answer is refused."""
    known = {"bad_answer": 400, "unknown_approval": 404, "bad_session_id": 404, "answered": 409}
    return known.get(error.code, 503)


def _bad(what: str, path: str) -> UsageError:
    return UsageError(
        what, code="bad_answer", path=path, hint="Give call_id, by, allow and, if you like, why."
    )


@final
class WaitingCalls:
    """Those of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._seen: dict[str, tuple[int, list[WaitingCall]]] = {}
        """Of each session: how many entries it had, and what waited then. A journal without new entries waits for the same."""

    async def find(self, limit: int = 100) -> list[WaitingCall]:
        """Those first that wait longest, of the 10,000 sessions that were used last."""
        seen: dict[str, tuple[int, list[WaitingCall]]] = {}
        for info in await self.store.find(used=True, limit=_MOST_SESSIONS):
            held = self._seen.get(info.id)
            if held is None or held[0] != info.entries:
                held = (info.entries, await self._look(info))
            seen[info.id] = held
        self._seen = seen
        found = [call for _, calls in seen.values() for call in calls]
        return sorted(found, key=lambda call: call.since)[: min(limit, MOST_LISTED)]

    async def of(self, session: str) -> list[WaitingCall]:
        """Of one session, in the order of its calls. Raises JournalError `unknown_session`."""
        check_session_id(session)
        return waiting_in(session, await self.store.read(session))

    async def answer(
        self, session: str, answer: CallAnswer, *, key: str = "", turn: str | None = None
    ) -> ApprovalGiven:
        """Write an answer into the journal of its session. `key`: an answer given under the same key is given once. `turn`: only
        if this turn waits for it.

        Raises UsageError `unknown_approval` if no such call waits, AnsweredError with who was first, `bad_answer`; JournalError.
        """
        check_session_id(session)
        check_answer(answer)
        given = ApprovalGiven(
            answer.call_id, answer.allow, by=encodable(answer.by), why=encodable(answer.why), key=key
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await self._answer(session, given, turn)
            except JournalError as error:
                if error.code == "unknown_session":
                    raise errors.no_such_approval(answer.call_id) from error
                if error.code not in ("session_busy", "fenced") or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(PAUSE)

    async def _answer(self, session: str, given: ApprovalGiven, turn: str | None) -> ApprovalGiven:
        # Looked at before it is claimed: a turn that runs is nobody's to stop.
        if (earlier := _awaited(await self.store.read(session), given, turn)) is not None:
            return earlier
        journal = await Journal.resume(self.store, session, keep_turn=True)
        try:
            if (earlier := _awaited(await self.store.read(session), given, turn)) is not None:
                return earlier
            await journal.append(given)
        finally:
            await journal.close()
        return given

    async def _look(self, info: SessionInfo) -> list[WaitingCall]:
        try:
            last = await self.store.read(info.id, after=max(info.entries - _TAIL, 0))
            return waiting_in(info.id, await self.store.read(info.id)) if _may_wait(last) else []
        except JournalError as error:
            if error.code in ("damaged", "unknown_session", "newer_entry"):
                return []
            raise


def _may_wait(last: Sequence[Record]) -> bool:
    """Whether a session may wait, by its last entries; true if they do not show it."""
    for record in reversed(last):
        match record.entry:
            case ApprovalAsked() | ApprovalGiven():
                return True
            case SettingsChanged() | Switched() | Compacted():  # what may happen to a session while it waits
                continue
            case _:
                return False
    return True


def waiting_in(session: str, records: Sequence[Record]) -> list[WaitingCall]:
    """The calls of a journal that wait."""
    state = replay(records)
    if not state.waits:
        return []
    since: dict[str, float] = {}
    model = state.model
    for record in records:
        match record.entry:
            case ApprovalAsked(call_ids):
                since |= dict.fromkeys(call_ids, record.at)
            case ModelReplied(message) if message.calls and (origin := message.origin) is not None:
                model = f"{origin.provider}/{origin.model}"
            case _:
                pass
    asked = (message.text for message in state.history.messages if message.speaker == "user")
    title = state.title or " ".join(next(asked, "")[:400].split())[:80]
    calls = [state.ledger[call_id].call for call_id, given in state.approvals.items() if given is None]
    return [
        WaitingCall(
            id=call.id,
            name=call.name,
            arguments=call.raw if call.arguments is None else call.arguments,
            session=session,
            title=title,
            since=since.get(call.id, 0.0),
            model=model,
            agent=state.agent,
            turn=state.turn_key,
        )
        for call in calls
    ]


def given_in(records: Sequence[Record]) -> dict[str, tuple[float, ApprovalGiven]]:
    """All answers of a journal by the ids of their calls, with when each was given."""
    return {
        record.entry.call_id: (record.at, record.entry)
        for record in records
        if isinstance(record.entry, ApprovalGiven)
    }


def _awaited(records: Sequence[Record], given: ApprovalGiven, turn: str | None) -> ApprovalGiven | None:
    """None if the call waits; the answer itself if it is written already. Raises why it is not wanted."""
    call_id = given.call_id
    if (held := given_in(records).get(call_id)) is not None:
        at, earlier = held
        if given.key and (earlier.key, earlier.by, earlier.allowed) == (given.key, given.by, given.allowed):
            return earlier
        raise errors.AnsweredError(call_id, earlier, at)
    state = replay(records)
    if state.waits and state.approvals.get(call_id, given) is None and turn in (None, state.turn_key):
        return None
    raise errors.no_such_approval(call_id)

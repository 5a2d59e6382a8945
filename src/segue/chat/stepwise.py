"""A chat whose turns are performed one step at a time, each in whichever process an engine chooses.

    steps = chat.stepwise("order-17")
    step = await steps.begin("Book the room.")
    while not isinstance(step, Done):
        step = await steps.perform(step)

The journal is the history; an engine keeps only which step comes next. A step that was performed already, because its process
ended before the engine knew, is recognised by its key and not performed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.chat.attachments import Content, user_message
from segue.chat.steps import Done, Wait
from segue.chat.turn import Turn
from segue.conversation.json_safe import encodable
from segue.errors import JournalError
from segue.sessions.entries import ApprovalGiven, UserSaid

if TYPE_CHECKING:
    from segue.chat.chat_session import ChatSession
    from segue.chat.steps import Step
    from segue.chat.turn import Answer
    from segue.events import ChatEvent, Emit


class StepwiseChat:
    """The turns of one session. It takes the session over from whichever process had it: that one writes nothing any more."""

    def __init__(self, session: ChatSession, key: str, output: Any = None, emit: Emit | None = None) -> None:
        """`key`: of the turn. A message that was sent under it is not sent again."""
        self._session = session
        self._key = key
        self._output = output
        self._emit = emit or _ignore
        self._turn: Turn | None = None
        self._step: Step | None = None

    @property
    def session(self) -> str:
        return self._session.require_open().journal.session

    @property
    def answer(self) -> Answer | None:
        """Of the turn, when it is over or waits."""
        return None if self._turn is None else self._turn.answer

    async def begin(self, *content: Content) -> Step:
        """The first step of the turn; where it was begun already, the one that is due."""
        await self._open()
        if self._session.journal.state.turn_key == self._key:
            return await self.current()
        self._turn = Turn(self._session, self._emit, sleeps=True)
        return self._at(await self._turn.begin(user_message(content), self._key))

    async def current(self) -> Step:
        """The step that is due, from the journal. A turn that another one has replaced is over."""
        await self._open()
        if self._session.journal.state.turn_key != self._key:
            return Done("replaced", "cancelled")
        if self._turn is None or self._step is None:
            self._turn = Turn(self._session, self._emit, sleeps=True)
            return self._at(await self._turn.reopen())
        return self._step

    async def perform(self, step: Step) -> Step:
        """The step that follows this one. This one is performed if it is due; otherwise it was done already.

        To sleep is the engine's part: give a `Sleep` when it is over.
        """
        due = await self.current()
        if due.key != step.key or self._turn is None:
            return due
        if isinstance(step, Wait | Done):
            return due
        return self._at(await self._turn.perform(due))

    async def approve(self, call_id: str, *, by: str, allow: bool = True, why: str = "") -> Step:
        """Somebody approved or refused a call. An answer that is no longer awaited changes nothing."""
        await self.current()
        state = self._session.journal.state
        if state.approvals.get(call_id, call_id) is None:
            await self._session.journal.append(ApprovalGiven(call_id, allow, by=by, why=encodable(why)))
            self._step = None
        return await self.current()

    async def cancel(self) -> Step:
        """End the turn here and now. What has ended is kept; what has not is closed. If another turn has begun since, it is left
        alone, and so is whoever performs it."""
        if await self._turn_key() != self._key:
            return Done("replaced", "cancelled")
        await self._open()
        if self._session.journal.state.turn_key == self._key:
            await self._session.journal.close_turn()
        self._step = None
        return await self.current()

    async def _turn_key(self) -> str:
        """Of the last turn, without taking the session over."""
        if self._session.is_open:
            return self._session.journal.state.turn_key
        store, name = self._session.settings.store, self._session.settings.session
        if store is None or name is None:
            return ""
        try:
            entries = [record.entry for record in await store.read(name)]
        except JournalError as error:
            if error.code != "unknown_session":
                raise
            return ""
        return next((entry.key for entry in reversed(entries) if isinstance(entry, UserSaid)), "")

    async def close(self) -> None:
        """Release the session."""
        self._turn = self._step = None
        await self._session.close()

    async def _open(self) -> None:
        await self._session.open(keep_turn=True)
        self._session.turn = self._session.turn_settings(self._output, {})

    def _at(self, step: Step) -> Step:
        """Raises why the journal could not be written: then nothing is known of the step, and it may be tried again."""
        error = None if self._turn is None else self._turn.answer.error
        if isinstance(error, JournalError):
            self._turn = self._step = None
            raise error
        self._step = step
        return step


def _ignore(_event: ChatEvent) -> None:
    """Without a listener."""

"""What a worker of any engine does: one step of one turn, of which the engine keeps plain data."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import msgspec

from segue.chat.steps import Step
from segue.errors import UsageError
from segue.sessions.approvals import CallAnswer, WaitingCalls
from segue.sessions.entries import ApprovalGiven
from segue.sessions.errors import AnsweredError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from segue.chat.chat import Chat
    from segue.chat.stepwise import StepwiseChat
    from segue.sessions.stores.store import Store

StepData: TypeAlias = dict[str, Any]
"""A step as JSON: `type`, `key`, and what the type has; the last one with `text` and `error` of the answer."""


FIRST_LOOK: Final = 60.0
LAST_LOOK: Final = 3600.0
"""Seconds between two looks into the journal of a turn that waits, which double from the first to the last. Whoever answers
through the engine wakes the turn at once; these are for answers that were written into the journal alone."""


@final
class Turns:
    """Opens the chat of a session, performs what is due, and closes it."""

    def __init__(self, open_chat: Callable[[str], Chat]) -> None:
        self._open_chat = open_chat

    async def begin(self, session: str, key: str, message: str) -> StepData:
        async with self._stepwise(session, key) as steps:
            return _as_data(await steps.begin(message), steps)

    async def perform(self, session: str, key: str, step: StepData) -> StepData:
        async with self._stepwise(session, key) as steps:
            due: Step = msgspec.convert(step, Step)
            return _as_data(await steps.perform(due), steps)

    async def approve(self, session: str, key: str, answer: dict[str, Any]) -> StepData:
        """`answer`: call_id, by, allow, why."""
        async with self._stepwise(session, key) as steps:
            return _as_data(await steps.approve(**answer), steps)

    async def current(self, session: str, key: str) -> StepData:
        """The step that is due, as the journal has it: somebody may have answered there."""
        async with self._stepwise(session, key) as steps:
            return _as_data(await steps.current(), steps)

    async def waiting(self, session: str) -> list[dict[str, Any]]:
        """The calls of a session that wait for an answer."""
        return [call.as_dict() for call in await WaitingCalls(self._store(session)).of(session)]

    async def answer(
        self, session: str, answer: dict[str, Any], key: str, turn: str | None = None
    ) -> dict[str, Any]:
        """Write an answer into the journal, without taking the session from whoever performs its turn. Whether it is refused,
        and why, is data: an engine would try an error again."""
        calls = WaitingCalls(self._store(session))
        try:
            await calls.answer(session, msgspec.convert(answer, CallAnswer), key=key, turn=turn)
        except AnsweredError as error:
            first = {"by": error.given.by, "allow": error.given.allowed, "why": error.given.why}
            return {**error.as_dict(), "answer": first, "at": error.at}
        except UsageError as error:
            return error.as_dict()
        return {}

    def _store(self, session: str) -> Store:
        store = self._open_chat(session).store
        if store is None:
            raise UsageError("The chats of an engine need a store.", code="no_store", path="open_chat")
        return store

    async def cancel(self, session: str, key: str) -> StepData:
        async with self._stepwise(session, key) as steps:
            return _as_data(await steps.cancel(), steps)

    @asynccontextmanager
    async def _stepwise(self, session: str, key: str) -> AsyncIterator[StepwiseChat]:
        steps = self._open_chat(session).stepwise(key)
        try:
            yield steps
        finally:
            await steps.close()


def _as_data(step: Step, steps: StepwiseChat) -> StepData:
    answer = steps.answer
    data: StepData = msgspec.to_builtins(step)
    if data["type"] == "done":
        data["text"] = "" if answer is None else answer.text
        data["error"] = None if answer is None or answer.error is None else answer.error.as_dict()
    return data


def refusal_of(call_id: str, refused: dict[str, Any]) -> UsageError:
    """The error that `Turns.answer` gave as data."""
    if first := refused.get("answer"):
        given = ApprovalGiven(call_id, first["allow"], by=first["by"], why=first["why"])
        return AnsweredError(call_id, given, refused["at"])
    return UsageError(refused["message"], code=refused["code"], path=refused["path"], hint=refused["hint"])

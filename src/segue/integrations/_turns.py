"""What a worker of any engine does: one step of one turn, of which the engine keeps plain data."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, final

import msgspec

from segue.chat.steps import Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from segue.chat.chat import Chat
    from segue.chat.stepwise import StepwiseChat

StepData: TypeAlias = dict[str, Any]
"""A step as JSON: `type`, `key`, and what the type has; the last one with `text` and `error` of the answer."""


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

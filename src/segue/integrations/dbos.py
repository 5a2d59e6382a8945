"""Agents as workflows of DBOS: on SQLite for one machine, on PostgreSQL for many.

    agents = DBOSAgents(lambda session: Chat("anthropic/claude-sonnet-4-6", session=session, store=store, tools=[book]))
    DBOS.launch()
    agents.register_queues()
    handle = await agents.send("trip-17", "Book the room.")
    print(await handle.get_result())

A turn is a workflow. DBOS starts, resumes and repeats its steps; what was said and done is in the journal of the session alone.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, final
from uuid import uuid4

import msgspec
from dbos import DBOS, SetEnqueueOptions, SetWorkflowID, StepOptions
from msgspec import Struct

from segue.integrations._dbos_recovery import WorkflowRecovery
from segue.integrations._turns import FIRST_LOOK, LAST_LOOK, Turns, refusal_of
from segue.sessions.approvals import CallAnswer, check_answer
from segue.sessions.errors import no_such_approval

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dbos import WorkflowHandleAsync

    from segue.chat.chat import Chat

_TOPIC: Final = "approvals"
_TRIES: Final[StepOptions] = {
    "retries_allowed": True,
    "max_attempts": 20,
    "interval_seconds": 0.2,
    "backoff_rate": 1.5,
}
"""Of a step whose store cannot be reached, or whose session another process has taken over: about fifteen minutes."""


@final
class AskLimits(Struct, frozen=True, kw_only=True):
    """How many requests to models may run at once, and begin in a time, on all machines together."""

    at_once: int | None = None
    requests: int | None = None
    seconds: float = 60.0


class DBOSAgents:
    """The turns of any number of sessions, each a workflow. Make it before `DBOS.launch()`, in every process alike."""

    def __init__(
        self,
        open_chat: Callable[[str], Chat],
        *,
        name: str = "agents",
        asks: AskLimits | None = None,
        polling_seconds: float = 1.0,
    ) -> None:
        """`open_chat`: the chat of a session, with a store that all processes share. `asks`: limits for the requests to models,
        which then wait in a queue of their own; give each provider its own `DBOSAgents`, and its limits are its own."""
        self.name = name
        self._turns = turns = Turns(open_chat)
        self._asks = asks
        self._polling = polling_seconds
        self._turns_queue, self._asks_queue = f"segue.{name}.turns", f"segue.{name}.asks"

        turn_name, ask_name, answer_name = (f"segue.{name}.{word}" for word in ("turn", "ask", "answer"))
        self._recovery = recovery = WorkflowRecovery(
            {turn_name: self._turns_queue, ask_name: self._asks_queue}
        )

        @DBOS.workflow(name=ask_name, max_recovery_attempts=None)
        async def ask(session: str, key: str, step: dict[str, Any]) -> dict[str, Any]:
            async with recovery.running(ask_name):
                return await self._step("perform", turns.perform, session, key, step)

        @DBOS.workflow(name=turn_name, max_recovery_attempts=None)
        async def turn(session: str, text: str) -> dict[str, Any]:
            async with recovery.running(turn_name):
                return await take_turn(session, text)

        async def take_turn(session: str, text: str) -> dict[str, Any]:
            key = DBOS.workflow_id or ""
            step = await self._step("begin", turns.begin, session, key, text)
            pause = FIRST_LOOK
            while step["type"] != "done":
                match step["type"]:
                    case "wait":
                        await DBOS.set_event_async(_TOPIC, step["calls"])
                        answer = await DBOS.recv_async(_TOPIC, timeout_seconds=pause)
                        pause = min(2 * pause, LAST_LOOK)
                        if answer is None:
                            step = await self._step("current", turns.current, session, key)
                        else:
                            step = await self._step("approve", turns.approve, session, key, answer)
                        if step["type"] != "wait":
                            pause = FIRST_LOOK
                            await DBOS.set_event_async(_TOPIC, [])
                    case "sleep":
                        await DBOS.sleep_async(step["seconds"])
                        step = await self._step("perform", turns.perform, session, key, step)
                    case "ask" if asks is not None:
                        asked = await DBOS.enqueue_workflow_async(self._asks_queue, ask, session, key, step)
                        step = await asked.get_result()
                    case _:
                        step = await self._step("perform", turns.perform, session, key, step)
            return step

        @DBOS.workflow(name=answer_name, max_recovery_attempts=None)
        async def give_answer(session: str, turn: str, answer: dict[str, Any], key: str) -> dict[str, Any]:
            # A workflow: whoever is killed once the answer is written wakes the turn when he starts again.
            key = key or DBOS.workflow_id or ""
            refused = await self._step("answer", turns.answer, session, answer, key, turn)
            if not refused:
                await DBOS.send_async(turn, answer, _TOPIC, idempotency_key=f"{turn}.{answer['call_id']}")
            return refused

        self._turn = turn
        self._give_answer = give_answer

    def register_queues(self) -> None:
        """After `DBOS.launch()`: turns of one session run one after another, and requests to models within their limits."""
        for name, limits in self._queues.items():
            DBOS.register_queue(name, polling_interval_sec=self._polling, **limits)
        self._recovery.watch()

    async def register_queues_async(self) -> None:
        """The same, where an event loop runs."""
        for name, limits in self._queues.items():
            await DBOS.register_queue_async(name, polling_interval_sec=self._polling, **limits)
        self._recovery.watch()

    @property
    def _queues(self) -> dict[str, dict[str, Any]]:
        queues: dict[str, dict[str, Any]] = {self._turns_queue: {"partition_concurrency": 1}}
        if (asks := self._asks) is not None:
            limiter = {"limit": asks.requests, "period": asks.seconds} if asks.requests else None
            queues[self._asks_queue] = {"global_concurrency": asks.at_once, "limiter": limiter}
        return queues

    async def send(self, session: str, text: str, *, turn: str = "") -> WorkflowHandleAsync[dict[str, Any]]:
        """Send a message; any process takes the turn. `turn`: its id, under which it is sent once however often this is called.

        The result has `finish`, `text`, `error`; a turn that waits for approvals has none until it is over.
        """
        with (
            SetWorkflowID(turn or f"{session}-{uuid4().hex[:12]}"),
            SetEnqueueOptions(queue_partition_key=session),
        ):
            return await DBOS.enqueue_workflow_async(self._turns_queue, self._turn, session, text)

    async def approvals(self, turn: str, *, seconds: float = 0.0) -> list[dict[str, Any]]:
        """The calls of a turn that wait for somebody's answer, as a `WaitingCall` has them: id, name, arguments, session, since, …
        `seconds`: how long to wait for some."""
        deadline = time.monotonic() + seconds
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            if await DBOS.get_event_async(turn, _TOPIC, timeout_seconds=left):
                waiting = await self._turns.waiting(await self._session_of(turn))
                if calls := [call for call in waiting if call["turn"] == turn]:
                    return calls
            if not left:
                return []
            await asyncio.sleep(min(left, self._polling))  # earlier ones are answered

    async def approve(
        self, turn: str, call_id: str, *, by: str, allow: bool = True, why: str = "", key: str = ""
    ) -> None:
        """Say whether a call may run, from any process, also days later. The journal keeps who said so; the first answer holds.
        `key`: an answer that is sent again under the same key is given once. Raises UsageError: `unknown_approval` if no such call of the turn waits, `answered` with who was first."""
        answer = CallAnswer(call_id=call_id, allow=allow, by=by, why=why)
        check_answer(answer)
        session = await self._session_of(turn)
        if not session:
            raise no_such_approval(call_id)
        handle = await DBOS.start_workflow_async(
            self._give_answer, session, turn, msgspec.to_builtins(answer), key
        )
        if refused := await handle.get_result():
            raise refusal_of(call_id, refused)

    async def _session_of(self, turn: str) -> str:
        """Empty if there is no such turn."""
        known = await DBOS.list_workflows_async(workflow_ids=[turn], load_output=False)
        given = known[0].input if known else None
        return str(given["args"][0]) if given else ""

    async def cancel(self, session: str, turn: str) -> None:
        """End a turn, wherever it runs: it can write nothing more, and the calls that are open are closed. One that is over already
        stays as it is, and so does the turn after it."""
        await DBOS.cancel_workflow_async(turn)
        await self._turns.cancel(session, turn)

    # What a process does

    async def _step(
        self, name: str, do: Callable[..., Coroutine[Any, Any, dict[str, Any]]], *given: Any
    ) -> dict[str, Any]:
        options: StepOptions = {**_TRIES, "name": f"segue.{self.name}.{name}"}
        return await DBOS.run_step_async(options, do, *given)

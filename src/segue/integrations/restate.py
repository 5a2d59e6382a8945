"""Agents as virtual objects of Restate: one object for each session, which takes one message at a time.

    agents = agent_object(lambda session: Chat("anthropic/claude-sonnet-4-6", session=session, store=store, tools=[book]))
    app = restate.app([agents])

Everything is asked of Restate's server over HTTP: `POST /Agent/SESSION/send`, `GET /Agent/SESSION/approvals`,
`POST /Agent/SESSION/approve`. Restate resumes and repeats steps; what was said and done is in the journal of the session alone.
An invocation that is cancelled there ends its turn.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from restate import ObjectContext, ObjectSharedContext, TerminalError, VirtualObject, as_completed

from segue.integrations._turns import StepData, Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.chat.chat import Chat

_PENDING: Final = "approvals"


def agent_object(open_chat: Callable[[str], Chat], *, name: str = "Agent") -> VirtualObject:
    """`open_chat`: the chat of a session, with a store that all workers share."""
    turns, agent = Turns(open_chat), VirtualObject(name)

    @agent.handler()
    async def send(context: ObjectContext, message: str) -> dict[str, Any]:
        """Take a turn. It ends with `finish`, `text` and `error`."""
        session, key = context.key(), str(context.request().id)
        try:
            return await take_turn(context, session, key, message)
        except TerminalError:  # somebody has cancelled the invocation
            await context.run_typed("cancel", turns.cancel, session=session, key=key)
            context.clear(_PENDING)
            raise

    async def take_turn(context: ObjectContext, session: str, key: str, message: str) -> dict[str, Any]:
        step = await context.run_typed("begin", turns.begin, session=session, key=key, message=message)
        while step["type"] != "done":
            if step["type"] == "wait":
                step = await _answered(context, turns, key, step)
                continue
            if step["type"] == "sleep":
                await context.sleep(timedelta(seconds=step["seconds"]))
            step = await context.run_typed(step["key"], turns.perform, session=session, key=key, step=step)
        return step

    @agent.handler(kind="shared")
    async def approvals(context: ObjectSharedContext) -> list[dict[str, Any]]:
        """The calls that wait for somebody to say whether they may run."""
        return await context.get(_PENDING, type_hint=list) or []

    @agent.handler(kind="shared")
    async def approve(context: ObjectSharedContext, answer: dict[str, Any]) -> None:
        """Say whether a call may run: `call_id`, `by`, `allow` and, for the model to read, `why`."""
        pending = {
            call["id"]: call["answer_to"] for call in await context.get(_PENDING, type_hint=list) or []
        }
        call_id, by = answer.get("call_id"), answer.get("by")
        if call_id not in pending:
            raise TerminalError(f'No call "{call_id}" waits for an answer.', status_code=404)
        if not by or not isinstance(by, str):
            raise TerminalError("The name of the person who answers is missing: give `by`.", status_code=400)
        given = {
            "call_id": call_id,
            "by": by,
            "allow": answer.get("allow", True) is True,
            "why": str(answer.get("why", "")),
        }
        context.resolve_awakeable(pending[call_id], given)

    return agent


async def _answered(context: ObjectContext, turns: Turns, key: str, step: StepData) -> StepData:
    """The step that follows when somebody has answered for each call that waits, in whichever order."""
    promises = {call["id"]: context.awakeable(type_hint=dict) for call in step["calls"]}
    pending = {call["id"]: {**call, "answer_to": promises[call["id"]][0]} for call in step["calls"]}
    context.set(_PENDING, [*pending.values()])
    async for answered in as_completed(*(promise for _, promise in promises.values())):
        answer = await answered
        step = await context.run_typed(
            "approve", turns.approve, session=context.key(), key=key, answer=answer
        )
        del pending[answer["call_id"]]
        context.set(_PENDING, [*pending.values()])
        if step["type"] == "done":  # another message has replaced the turn, and nobody is asked any more
            break
    context.clear(_PENDING)
    return step

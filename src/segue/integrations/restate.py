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

import msgspec
from restate import ObjectContext, ObjectSharedContext, TerminalError, VirtualObject, wait_completed

from segue.errors import UsageError
from segue.integrations._turns import FIRST_LOOK, LAST_LOOK, StepData, Turns, refusal_of
from segue.sessions.approvals import read_answer, status_of

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
        pending = await context.get(_PENDING, type_hint=list) or []
        return [{name: call[name] for name in call if name != "answer_to"} for call in pending]

    @agent.handler(kind="shared")
    async def approve(context: ObjectSharedContext, answer: dict[str, Any]) -> dict[str, Any]:
        """Say whether a call may run: `call_id`, `by`, `allow` and, for the model to read, `why`."""
        return await _answer(context, turns, answer)

    return agent


async def _answer(context: ObjectSharedContext, turns: Turns, answer: dict[str, Any]) -> dict[str, Any]:
    try:
        given = msgspec.to_builtins(read_answer(msgspec.json.encode(answer)))
    except UsageError as error:
        raise _refusal(error) from error
    session, key = context.key(), str(context.request().id)
    pending = await context.get(_PENDING, type_hint=list) or []
    refused = await context.run_typed("answer", turns.answer, session=session, answer=given, key=key)
    if refused:
        raise _refusal(refusal_of(given["call_id"], refused))
    for call in pending:
        if call["id"] == given["call_id"]:
            context.resolve_awakeable(call["answer_to"], given)
    return dict(given)


def _refusal(error: UsageError) -> TerminalError:
    return TerminalError(str(error), status_code=status_of(error))


async def _answered(context: ObjectContext, turns: Turns, key: str, step: StepData) -> StepData:
    """The step that follows when somebody has answered for each call that waits, in whichever order and place."""
    session, pause = context.key(), FIRST_LOOK
    calls = await context.run_typed("waiting", turns.waiting, session=session)
    promises = {call["id"]: context.awakeable(type_hint=dict) for call in calls}
    while step["type"] == "wait":
        due = {call["id"] for call in step["calls"]}
        pending = [call for call in calls if call["id"] in due]
        context.set(_PENDING, [{**call, "answer_to": promises[call["id"]][0]} for call in pending])
        timer = context.sleep(timedelta(seconds=pause))
        await wait_completed(timer, *(promises[call["id"]][1] for call in pending))
        pause = min(2 * pause, LAST_LOOK)
        step = await context.run_typed("current", turns.current, session=session, key=key)
    context.clear(_PENDING)
    return step

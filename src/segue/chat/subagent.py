"""A tool that gives a task to a chat of its own: another model, other tools, and a budget.

The child is a session like any other, on the same code path, with its own scheduler. Its journal names the call and
the session that it answers. Cancelling that call cancels the child, and what the child costs counts as the call's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.chat.chat import Chat
from segue.chat.turn import Answer
from segue.chat.turn_settings import OVER_BUDGET, Budget
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.events import ToolCallStart, Warned
from segue.sessions.entries import Link
from segue.text.suggestions import named_keywords
from segue.tools.definition import Output, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segue.routing.router import Model
    from segue.tools.definition import Approves, Context

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "minLength": 1,
            "description": "The task, with everything that must be known for it: nothing else is passed on.",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


@named_keywords("subagent_tool")
def subagent_tool(
    name: str,
    description: str,
    model: Model | None = None,
    *,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    system: str = "",
    budget: Budget = Budget(),  # noqa: B008 - a frozen value
    options: Options = Options(),  # noqa: B008 - a frozen value
    approval: Approves | None = None,
) -> Tool:
    """A tool that gives a task to a new chat, for `Chat(tools=[…])`. See also `Agent.as_tool`.

    Providers, store, dependencies and, where none is given, model and approval are those of the chat that calls it.
    """
    given = tuple(tools)

    def begin(context: Context, parent: Link | None) -> Chat:
        host = context.host
        own = "" if host is None or host.router is None else host.router()
        return Chat(
            own if model is None else model,
            tools=given,
            system=system,
            deps=context.deps,
            store=None if host is None else host.store,
            providers=None if host is None else host.providers,
            approval=approval or (None if host is None else host.approval),
            options=options,
            budget=budget,
            title=name,
            parent=parent,
        )

    return task_tool(name, description, begin)


def task_tool(name: str, description: str, begin: Callable[[Context, Link | None], Chat[Any]]) -> Tool:
    """Gives a task to the chat that `begin` makes for it, and returns its answer. The link names the call."""

    async def run(arguments: dict[str, Any], context: Context) -> Output:
        parent = Link(context.session, context.call.id) if context.session else None
        async with begin(context, parent) as child:
            return await _work(child, arguments["task"], context)

    # The child's own limits are what ends it: no clock beside them.
    return Tool(spec=ToolSpec(name, description, _PARAMETERS), run=run, timeout=None)


async def _work(child: Chat[Any], task: str, context: Context) -> Output:
    spent = ""
    try:
        async for event in child.stream(task):
            if type(event) is ToolCallStart:
                context.progress(f"{child.id}: {event.call.name}")
            elif type(event) is Warned and event.code == OVER_BUDGET:
                spent = event.message
    finally:
        if child.answer is not None:
            context.spend(child.answer.usage, child.answer.cost, child.answer.at_least)
    answer = (child.answer or Answer(finish="cancelled")).or_raise()
    if answer.finish == "complete":
        return Output(answer.text)
    why = {
        "max_turns": f"it has made {answer.exchanges} exchanges, its limit",
        "cancelled": spent or "it was cancelled",
        "length": "its answer was cut off at the limit of its length",
        "content_filter": "its provider refused the content",
        "waiting": "a call of it needs an approval, and nobody is asked later within a subagent",
    }[answer.finish]
    return Output(answer.text or None, error=f"The subagent did not finish: {why}.")

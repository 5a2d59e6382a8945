"""A tool that hands a task to a chat of its own: another model, other tools, and a budget.

The child is a session like any other, on the same code path, with its own scheduler. Its journal says which call of
which session it answers. Cancelling that call cancels the child.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from msgspec import Struct

from segue.chat.chat import Chat
from segue.chat.events import Finish, ToolCallStart, TurnComplete
from segue.chat.session import Answer
from segue.chat.tool import Output, Tool
from segue.chat.turn import MAX_EXCHANGES
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import Usage
from segue.sessions.entries import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segue.chat.chat import Model
    from segue.chat.tool import Approves, Context

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "minLength": 1,
            "description": "What is to be done, with all that must be known for it: nothing else is told.",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


@final
class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one task may cost. It is looked at after each exchange."""

    max_turns: int = MAX_EXCHANGES
    """Exchanges with the model."""
    max_tokens: int | None = None
    """Of input and output together."""
    max_cost: float | None = None
    """Dollars."""

    def exceeded(self, usage: Usage, cost: float | None) -> str:
        """Which limit was reached; nothing if none was."""
        if self.max_tokens is not None and (usage.total_tokens or 0) >= self.max_tokens:
            return f"it has used {usage.total_tokens} of {self.max_tokens} tokens"
        if self.max_cost is not None and (cost or 0.0) >= self.max_cost:
            return f"it has cost {cost:.4f} of {self.max_cost:.4f} dollars"
        return ""


def subagent_tool(
    name: str,
    description: str,
    model: Model,
    *,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    system: str = "",
    budget: Budget = Budget(),  # noqa: B008 - a frozen value
    options: Options = Options(),  # noqa: B008 - a frozen value
    approval: Approves | None = None,
) -> Tool:
    """Providers, store and, where none is given, approval are those of the chat that calls it."""
    given = tuple(tools)

    async def run(arguments: dict[str, Any], context: Context) -> Output:
        host = context.host
        child = Chat(
            model,
            tools=given,
            system=system,
            store=None if host is None else host.store,
            providers=None if host is None else host.providers,
            approval=approval or (None if host is None else host.approval),
            options=options,
            max_turns=budget.max_turns,
            title=name,
            parent=Link(context.session, context.call.id) if context.session else None,
        )
        async with child:
            return await _work(child, arguments["task"], budget, context)

    # The child's own limits are what ends it: no clock beside them.
    return Tool(spec=ToolSpec(name, description, _PARAMETERS), run=run, timeout=None)


async def _work(child: Chat, task: str, budget: Budget, context: Context) -> Output:
    usage, cost, exceeded = Usage(), None, ""
    async for event in child.stream(task):
        if type(event) is ToolCallStart:
            context.progress(f"{child.id}: {event.call.name}")
        elif type(event) is TurnComplete:
            usage = usage.plus(event.usage)
            if event.cost is not None:
                cost = (cost or 0.0) + event.cost
            exceeded = exceeded or budget.exceeded(usage, cost)
            if exceeded:
                child.cancel()
        elif type(event) is Finish:
            break
    answer = (child.answer or Answer(finish="cancelled")).or_raise()
    if answer.finish == "complete":
        return Output(answer.text)
    why = {
        "max_turns": f"it has made {answer.exchanges} exchanges, which is all it may",
        "cancelled": exceeded or "it was cancelled",
        "length": "its answer was cut off at the limit of its length",
        "content_filter": "its provider refused the content",
    }[answer.finish]
    return Output(answer.text or None, error=f"The subagent did not finish: {why}.")

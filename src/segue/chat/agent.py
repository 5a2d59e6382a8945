"""The agent: a definition that is made once and has many conversations, also at the same time.

    support = Agent("anthropic/claude-sonnet-4-6", instructions="Help customers.", tools=[orders], deps=Shop)

    answer = await support.run("Where is my parcel?", deps=shop)        # one question
    async with support.chat(session=user, deps=shop) as chat:           # a conversation
        ...

It holds what it was defined with and nothing of any conversation, so many tasks may use it at once.
"""

from __future__ import annotations

import re
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, Unpack, final, get_origin, overload

from msgspec import structs

from segue.chat.chat import Chat
from segue.chat.chat_session import ChatSession, ChatSettings, check_kinds
from segue.chat.compaction.trigger import CompactionSettings
from segue.chat.given_history import GivenHistory, history_in
from segue.chat.output_type import output_type
from segue.chat.roles import Role, checked_function, is_subtype, require_deps
from segue.chat.subagent import task_tool
from segue.chat.turn_settings import Budget, check_options
from segue.conversation.json_safe import encodable
from segue.conversation.options import Options
from segue.errors import UsageError
from segue.text.suggestions import named_keywords
from segue.tools.definition import ToolSet
from segue.tools.function_tools import tools_in
from segue.transcript.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from typing_extensions import TypeVar as DefaultTypeVar

    from segue.chat.attachments import Content
    from segue.chat.turn import Answer
    from segue.chat.turn_settings import TurnOptions
    from segue.providers.adapter import Providers
    from segue.routing.router import Model
    from segue.sessions.entries import Link
    from segue.sessions.stores.store import Store
    from segue.tools.definition import Approves, Context, Tool

    DepsT = DefaultTypeVar("DepsT", default=None)
    OutputT = DefaultTypeVar("OutputT", default=None)
else:
    DepsT = TypeVar("DepsT")
    OutputT = TypeVar("OutputT")

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,48}")


@final
class Agent(Generic[DepsT, OutputT]):
    """A frozen definition of who answers, with what, and how: it makes chats."""

    @overload
    def __init__(
        self: Agent[None, Any],
        model: Model = "",
        *,
        output: dict[str, Any],
        name: str = "",
        description: str = "",
        instructions: str | Callable[[Context[None]], str | Awaitable[str]] = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        check: Callable[[Any, Context[None]], Any] | None = None,
        deps: None = None,
        handoffs: Iterable[Agent[Any, Any]] | Callable[[], Iterable[Agent[Any, Any]]] = (),
        budget: Budget = ...,
        options: Options = ...,
        approval: Approves | None = None,
        policy: Policy = ...,
        compaction: CompactionSettings = ...,
        continue_turns: bool = True,
        providers: Providers | None = None,
        store: Store | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[DepsT, Any],
        model: Model = "",
        *,
        output: dict[str, Any],
        name: str = "",
        description: str = "",
        instructions: str | Callable[[Context[DepsT]], str | Awaitable[str]] = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        check: Callable[[Any, Context[DepsT]], Any] | None = None,
        deps: type[DepsT],
        handoffs: Iterable[Agent[Any, Any]] | Callable[[], Iterable[Agent[Any, Any]]] = (),
        budget: Budget = ...,
        options: Options = ...,
        approval: Approves | None = None,
        policy: Policy = ...,
        compaction: CompactionSettings = ...,
        continue_turns: bool = True,
        providers: Providers | None = None,
        store: Store | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: Model = "",
        *,
        output: type[OutputT] | None = None,
        name: str = "",
        description: str = "",
        instructions: str | Callable[[Context[DepsT]], str | Awaitable[str]] = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        check: Callable[[OutputT, Context[DepsT]], OutputT | Awaitable[OutputT]]
        | Callable[[str, Context[DepsT]], str | Awaitable[str]]
        | None = None,
        deps: type[DepsT] | None = None,
        handoffs: Iterable[Agent[Any, Any]] | Callable[[], Iterable[Agent[Any, Any]]] = (),
        budget: Budget = ...,
        options: Options = ...,
        approval: Approves | None = None,
        policy: Policy = ...,
        compaction: CompactionSettings = ...,
        continue_turns: bool = True,
        providers: Providers | None = None,
        store: Store | None = None,
    ) -> None: ...
    @named_keywords("Agent", options=Options.__struct_fields__, budget=Budget.__struct_fields__)
    def __init__(  # noqa: PLR0913 - everything that a user may choose, all of it optional
        self,
        model: Model = "",
        *,
        output: Any = None,
        name: str = "",
        description: str = "",
        instructions: Any = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        check: Any = None,
        deps: type[DepsT] | None = None,
        handoffs: Iterable[Agent[Any, Any]] | Callable[[], Iterable[Agent[Any, Any]]] = (),
        budget: Budget = Budget(),  # noqa: B008 - a frozen value
        options: Options = Options(),  # noqa: B008 - a frozen value
        approval: Approves | None = None,
        policy: Policy = Policy(),  # noqa: B008 - a frozen value
        compaction: CompactionSettings = CompactionSettings(),  # noqa: B008 - a frozen value
        continue_turns: bool = True,
        providers: Providers | None = None,
        store: Store | None = None,
    ) -> None:
        """Everything is checked here: a tool or an output that cannot be described to a model is an error now.

        Args:
            model: Who answers: `provider/model`, a Route, or a router of several. Without it the default of the configuration.
            output: The type that answers have, or a JSON Schema: `answer.output` is a value of it.
            name: For traces, and for agents that hand over to it or use it as a tool.
            description: What it is for, in the words that other agents' models read.
            instructions: The system prompt; or a function that takes a `Context[Deps]` and returns it, called at the beginning
                of each turn.
            tools: Functions with annotations, and tools, that the model may call.
            check: Takes an answer and a `Context[Deps]`; returns the answer that counts, or raises `AskAgain` with a reason that
                the model reads.
            deps: The type of `context.deps`. Their values are given to `chat` and `run`.
            handoffs: Agents that the model may give the conversation to: they continue it, and keep all of it. A function
                where two agents name each other.
            budget: What a turn may cost: exchanges, tokens, dollars, corrections.
            options: Temperature, length, effort and the like, for every model as far as it knows them.
            approval: Which calls may run. Without it functions that were written for this agent may, and tools that only read.
            policy: How a conversation is rendered for another model.
            compaction: When and how a conversation that grows too long is shortened.
            continue_turns: The next member of a router continues a turn that fails after calls have run.
            providers: Where models are found, by the name of a provider. Without it those of the configuration.
            store: Where sessions are kept. Without one they end with their chats.
        """
        offered = tools_in(tools)
        ToolSet(offered)  # two of one name are an error now
        for one in offered:
            if not is_subtype(type(None) if deps is None else deps, one.deps):
                raise _misfit(
                    f'The tool "{one.name}" wants dependencies of type {_called(one.deps)}, '
                    f"and the agent has {_called(deps)}.",
                    "deps",
                )
        role = Role(
            name=name,
            description=encodable(description),
            model=model,
            system=checked_function(instructions, "instructions", ("a Context",)),
            tools=offered,
            output=None if output is None else output_type(output),
            check=None if check is None else checked_function(check, "check", ("the answer", "a Context")),
        )
        settings = ChatSettings(
            store=store,
            providers=providers,
            options=options,
            budget=budget,
            approval=approval,
            policy=policy,
            compaction=compaction,
            continue_turns=continue_turns,
        )
        check_kinds(model, settings)
        wanted: object = deps
        if not (isinstance(wanted, type | UnionType | None) or get_origin(wanted) or wanted is Any):
            raise UsageError(
                f"Expected a type, not a {type(wanted).__name__}.",
                code="bad_option",
                path="deps",
                hint="Write deps=Deps here; its values are given to chat(deps=…) and run(deps=…).",
            )
        given = handoffs if callable(handoffs) else tuple(handoffs)
        values = {
            "_deps": deps,
            "_output": output,
            "_role": role,
            "_settings": settings,
            "_handoffs": given if callable(given) else lambda: given,
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)
        if not callable(given):  # what a function returns may not be defined yet
            _check_handoffs(self, given)

    _deps: type[DepsT] | None
    _output: Any
    _role: Role
    _settings: ChatSettings
    _handoffs: Callable[[], Iterable[Agent[Any, Any]]]

    @property
    def name(self) -> str:
        """For traces, and for agents that hand over to it or use it as a tool."""
        return self._role.name

    @property
    def description(self) -> str:
        """What it is for, in the words that other agents' models read."""
        return self._role.description

    @property
    def deps(self) -> type[DepsT] | None:
        """The type of the dependencies that its tools, instructions and check want."""
        return self._deps

    @property
    def output(self) -> Any:
        """The type that its answers have; None for text."""
        return self._output

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("An agent does not change: define another one.", name=name, obj=self)

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __repr__(self) -> str:
        return f"Agent({self.name or self._role.model!r})"

    @named_keywords("Agent.chat")
    def chat(
        self,
        *,
        deps: DepsT | None = None,
        session: str | None = None,
        history: GivenHistory | None = None,
        model: Model = "",
        providers: Providers | None = None,
        store: Store | None = None,
        title: str = "",
        take_over: bool = False,
    ) -> Chat[OutputT]:
        """A conversation with this agent, for `async with`.

        `deps`: of this conversation. `session`: resume that one, or begin it under this id. `history`: the earlier messages,
        as messages of any wire. The others stand for those of the agent, or add what `Chat` takes.
        """
        return self._chat(
            structs.replace(
                self._settings,
                deps=deps,
                session=session,
                history=history_in(history),
                providers=self._settings.providers if providers is None else providers,
                store=self._settings.store if store is None else store,
                title=encodable(title),
                take_over=take_over,
            ),
            model,
        )

    async def run(
        self,
        *content: Content,
        deps: DepsT | None = None,
        session: str | None = None,
        history: GivenHistory | None = None,
        providers: Providers | None = None,
        store: Store | None = None,
        raises: bool = True,
        **turn: Unpack[TurnOptions],
    ) -> Answer[OutputT]:
        """One message and its answer: a chat that is opened and closed again. It takes what `chat` and `send` do."""
        check_options("Agent.run", turn, ("deps", "session", "history", "providers", "store", "raises"))
        chat = self.chat(deps=deps, session=session, history=history, providers=providers, store=store)
        async with chat:
            return await chat.send(*content, raises=raises, **turn)

    def as_tool(self, *, name: str = "", description: str = "") -> Tool:
        """A tool that gives this agent a task in a new conversation; the caller's model reads the answer.

        It has the dependencies of the chat that calls it, and where it has none of its own, providers, store, approval and
        model too. To let it continue the conversation itself, name it in `handoffs` instead.
        """

        def begin(context: Context[Any], parent: Link | None) -> Chat[Any]:
            host, own = context.host, self._settings
            if host is not None:
                own = structs.replace(
                    own,
                    deps=host.deps if self.deps is not None else None,
                    providers=own.providers or host.providers,
                    store=own.store or host.store,
                    approval=own.approval or host.approval,
                )
            asked = host.router() if host is not None and host.router is not None else ""
            return self._chat(structs.replace(own, title=self.name, parent=parent), self._role.model or asked)

        named = name or _required_name(self, "is used as a tool")
        return task_tool(named, encodable(description) or self._role.description, begin)

    def _chat(self, settings: ChatSettings, model: Model) -> Chat[OutputT]:
        require_deps(self.deps, settings.deps, f"The agent {self.name}".rstrip())
        roles = self._roles()
        role = roles.get(self.name, self._role)
        if model:
            role = structs.replace(role, model=model)
        return Chat.of_session(ChatSession(role, settings, roles))

    def _roles(self) -> dict[str, Role]:
        """All agents that the conversation can be handed over to, this one included; none where it hands over to nobody."""
        agents: dict[str, Agent[Any, Any]] = {}
        roles: dict[str, Role] = {}
        waiting: list[Agent[Any, Any]] = [self]
        while waiting:
            agent = waiting.pop()
            successors = tuple(agent._handoffs())
            if agent is self and not successors:
                return {}
            if agents.setdefault(agent.name, agent) is not agent:
                raise _misfit(f'Two agents are called "{agent.name}".', "name")
            if agent.name not in roles:
                _check_handoffs(agent, successors)
                names = tuple(other.name for other in successors)
                roles[agent.name] = structs.replace(agent._role, successors=names)
                waiting += successors
        return roles


def _check_handoffs(agent: Agent[Any, Any], successors: tuple[Agent[Any, Any], ...]) -> None:
    known = {_required_name(one, "takes part in handoffs"): one for one in successors}
    if successors and known.setdefault(_required_name(agent, "takes part in handoffs"), agent) is not agent:
        raise _misfit(f'Two agents are called "{agent.name}".', "name")
    for other in successors:
        _check_handoff(agent, other)


def _check_handoff(agent: Agent[Any, Any], other: Agent[Any, Any]) -> None:
    if agent.output is not other.output and agent.output != other.output:
        raise _misfit(
            f'"{agent.name}" answers with {_called(agent.output)} and "{other.name}" with {_called(other.output)}: '
            "whoever asked could not know which.",
            "output",
        )
    if not is_subtype(type(None) if agent.deps is None else agent.deps, other.deps):
        raise _misfit(
            f'"{other.name}" wants dependencies of type {_called(other.deps)}, and "{agent.name}" has {_called(agent.deps)}.',
            "deps",
        )


def _required_name(agent: Agent[Any, Any], why: str) -> str:
    if _NAME.fullmatch(agent.name):
        return agent.name
    raise _misfit(
        f"An agent that {why} needs a name of up to 48 letters, digits, _ and -, not {agent.name!r}.", "name"
    )


def _called(kind: Any) -> str:
    return "none" if kind is None else str(getattr(kind, "__name__", kind))


def _misfit(why: str, path: str) -> UsageError:
    return UsageError(why, code="bad_agent", path=path, hint="Correct the definition of the agent.")

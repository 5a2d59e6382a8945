"""A tool as the scheduler knows it: its description for the model, the function to run, and what it may touch; and the
tools of one chat."""

from __future__ import annotations

from asyncio import Event as Abort
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import Media, ToolCall
from segue.conversation.tools import ToolSpec
from segue.errors import UsageError
from segue.providers.adapter import Providers
from segue.routing.router import Router
from segue.sessions.stores.store import Store

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from segue.conversation.usage import Usage

    DepsT_co = TypeVar("DepsT_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    DepsT_co = TypeVar("DepsT_co", covariant=True)

Effect: TypeAlias = Literal["read", "edit", "run", "fetch", "other"]
"""What a tool does to the world: looks at it, changes files, runs programs, asks the network, or nobody knows."""


@final
class Output(Struct, frozen=True):
    """What a tool returns when a plain value is not enough."""

    value: Any = None
    media: tuple[Media, ...] = ()
    error: str | None = None


class Approves(Protocol):
    """Decides which calls may run; see `segue.tools.approval`."""

    async def refusal(self, call: ToolCall, tool: Tool) -> str:
        """Why the call may not run; empty if it may."""
        ...


@final
class PendingApproval(Exception):  # noqa: N818 - no failure: the turn waits
    """Raised by whoever decides about calls, where the answer will be given later and perhaps elsewhere."""


class Confines(Protocol):
    """A sandbox; see `segue.tools.sandbox.sandbox`."""

    @property
    def confines(self) -> bool:
        """Whether what the tool starts runs inside."""
        ...

    @property
    def is_missing(self) -> bool:
        """Whether it should, and the system has no way to do so."""
        ...

    def summary(self) -> str:
        """What can be done inside, in a few words."""
        ...


@final
class Host(Struct, frozen=True, kw_only=True):
    """What a session shares with the sessions that its tools begin."""

    providers: Providers
    store: Store
    approval: Approves | None = None
    router: Callable[[], Router] | None = None
    """Who answers in the session now; None if nobody knows."""
    deps: Any = None
    """What its tools are given as `context.deps`."""


class Spends(Protocol):
    """Counts what a tool's models have used, and its price. `at_least`: what is known of the price where not all of it is."""

    def __call__(self, usage: Usage, cost: float | None, at_least: float = 0.0, /) -> None: ...


def uncounted(_usage: Usage, _cost: float | None, _at_least: float = 0.0, /) -> None:
    """Costs are not counted."""


@final
class StoppedCallError(Exception):
    """Raised by a tool that was cancelled and has something to show for it."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


@final
class AskAgain(Exception):  # noqa: N818 - an instruction, like StopIteration
    """Raised by the check of an answer: the model reads the reason and answers again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


NO_CALL: Final = ToolCall("", "")
"""The call of a context that belongs to no call."""


@final
class Context(Struct, Generic[DepsT_co], frozen=True, kw_only=True):
    """What a running tool may know of its surroundings: a parameter `context: Context[Deps]` is filled by the runtime.

    Instructions and checks of answers that are functions get one too.
    """

    deps: DepsT_co = None  # type: ignore[assignment]  # without any it is None
    """What `Chat(deps=…)` or `agent.run(…, deps=…)` was given: connections, settings, the user of this request."""
    call: ToolCall = NO_CALL
    """The call that runs; without id and name where there is none, as in instructions."""
    abort: Abort
    """Set when the turn is cancelled; a tool that takes long should watch it."""
    progress: Callable[[str], None]
    """Reports how far the call is: a `tool_progress` event with this text."""
    spend: Spends = uncounted
    """Reports what the call has cost, where its tool asks models."""
    session: str = ""
    """The id of the session that the call belongs to."""
    host: Host | None = None
    """For tools that begin a session of their own."""


Runner: TypeAlias = Callable[[dict[str, Any], "Context[Any]"], Awaitable[Any]]
"""Takes the arguments, already checked against the schema. A failure is raised; the model will read it."""


@final
class Tool(Struct, frozen=True, kw_only=True):
    """Something a model may call. Most are made of functions: see `tool`."""

    spec: ToolSpec
    run: Runner
    check: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
    """What is wrong with arguments that fit the schema, each for the model to read: asked before the call begins."""
    deps: Any = None
    """The type that it wants `context.deps` to have; None if it wants none."""
    effect: Effect = "other"
    foreign: bool = False
    """It is another program's: nobody wrote it for this chat, so nobody vouches for it."""
    timeout: float | None = 120.0
    writes: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
    """The paths a call would write: calls that share one run one after another."""
    sandbox: Confines | None = None
    """What the programs that it starts run in; None if nobody knows."""
    repeatable: bool | None = None
    """Whether a call that was cut short may be run again, where an engine continues its turn; None: if it only reads."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def may_repeat(self) -> bool:
        return self.effect == "read" if self.repeatable is None else self.repeatable


@final
class ToolSet:
    """Never changes: other tools are another set."""

    def __init__(self, tools: Iterable[Tool] = (), approval: Approves | None = None) -> None:
        """Without `approval` every call may run."""
        self.by_name: dict[str, Tool] = {}
        for tool in tools:
            if tool.spec.name in self.by_name:
                raise UsageError(
                    f'Two tools are called "{tool.spec.name}".',
                    code="duplicate_tool",
                    hint="Give one of them another name.",
                )
            self.by_name[tool.spec.name] = tool
        self.specs = tuple(tool.spec for tool in self.by_name.values())
        self.size = len(repr(self.specs))
        """Characters that they take in a request, about."""
        self.approval = approval

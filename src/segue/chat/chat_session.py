"""The session of a chat: opened when it is first needed, closed, and opened again as it was left.

It owns what all turns have in common: journal, router, tools, and what was learned about the models.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from msgspec import Struct, structs

from segue.chat.compaction.trigger import CompactionSettings, Compactor
from segue.chat.given_history import AdoptedHistory
from segue.chat.output_type import output_type
from segue.chat.roles import Role, SystemPrompt, handover_tool, instructions_of, reachable, require_deps
from segue.chat.turn_settings import Budget, TurnOptions, TurnSettings, model_of, options_of
from segue.conversation.blocks import Media, Origin, Reasoning, Text, ToolCall
from segue.conversation.json_safe import encodable
from segue.conversation.message import Conversation, Message
from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import JournalError, SegueError, UsageError
from segue.providers.adapter import ChatRequest, Providers, RequestSent
from segue.providers.models.prices import PriceBook, prices_of
from segue.providers.requests.text_requests import fitted_to_model
from segue.routing.route import Route, default_route, facts_from, parse_route, provider_of
from segue.routing.router import Model, Router, router_for
from segue.sessions.entries import Link, SessionStarted, SettingsChanged
from segue.sessions.journal import Journal
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.store import Store
from segue.tools.approval import own_functions_only
from segue.tools.definition import Approves, Context, Host, ToolSet
from segue.tools.function_tools import tools_in
from segue.tools.scheduler import Scheduler
from segue.transcript.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from segue.routing.route import Facts
    from segue.tools.definition import Tool
    from segue.transcript.repairs import Repair


@final
class ChatSettings(Struct, frozen=True, kw_only=True):
    """What a chat is opened with, besides its role."""

    deps: Any = None
    history: AdoptedHistory | None = None
    session: str | None = None
    store: Store | None = None
    providers: Providers | None = None
    options: Options = Options()
    budget: Budget = Budget()
    approval: Approves | None = None
    policy: Policy = Policy()
    compaction: CompactionSettings = CompactionSettings()
    continue_turns: bool = True
    title: str = ""
    directory: str = ""
    parent: Link | None = None
    take_over: bool = False


@final
class ChatSession:
    """One session. Whatever is asked of it but `open` needs it to be open."""

    journal: Journal
    router: Router
    scheduler: Scheduler
    providers: Providers
    prices: PriceBook
    facts: Facts

    def __init__(
        self, role: Role, settings: ChatSettings, roles: Mapping[str, Role] = MappingProxyType({})
    ) -> None:
        """`roles`: all that the conversation may be handed over to, by name."""
        check_kinds(role.model, settings)
        self.settings = settings
        self.roles = roles
        self.role = role
        self.next_role: Role | None = None
        """The one that the model has asked for."""
        self.model: Model = self._model_of(role)
        self.is_open = False
        self.compactor = Compactor(self)
        self._sends_given_seals = True
        """Whether the seals that came with a history are sent: until a provider refuses them."""
        self.reported: set[Repair] = set()
        """Repairs that were reported already."""
        self.adoption_repairs: tuple[Repair, ...] = ()
        """What was repaired in the history that the chat began with, until it is reported."""
        self.skipped: dict[str, str] = {}
        """Members of the router that the last turn could not go to, each with the code of the reason."""
        self.turn = TurnSettings()
        """Of the turn that runs."""
        self._opening = asyncio.Lock()
        self._resources = AsyncExitStack()
        self._tools = self._tools_of(role)

    @property
    def tools(self) -> ToolSet:
        """Those of the turn that runs, where it has its own."""
        return self._tools if self.turn.tools is None else self.turn.tools

    def equip(self, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        """Offer these tools from now on."""
        self._tools = self.tool_set(tools)

    def tool_set(self, tools: Iterable[Tool | Callable[..., Any]]) -> ToolSet:
        offered = tools_in(tools)
        for tool in offered:
            require_deps(tool.deps, self.settings.deps, f'The tool "{tool.name}"')
        return ToolSet(offered, self.settings.approval or own_functions_only(offered))

    def _model_of(self, role: Role) -> Model:
        model = role.model
        return _named(model, self.settings.providers) if isinstance(model, str) and model else model

    def _tools_of(self, role: Role) -> ToolSet:
        successors = [handover_tool(other, self._hand_over) for other in reachable(self.roles, role)]
        return self.tool_set([*role.tools, *successors])

    def _hand_over(self, role: Role) -> str:
        """What the model reads that asked for it; it happens when all calls of the reply have ended."""
        if self.next_role is not None:
            return f"The conversation goes to {self.next_role.name} already."
        self.next_role = role
        return f"{role.name} answers from here on."

    async def take_role(self, abort: asyncio.Event) -> None:
        """Let the role answer that the conversation was handed over to."""
        role, self.next_role = self.next_role or self.role, None
        # As after opening: the journal has the system prompt, and whoever changes it changes it there.
        self.role = structs.replace(role, system="") if isinstance(role.system, str) else role
        self._tools = self._tools_of(role)
        if role.model:
            self.model = self.router = router_for(self._model_of(role), self.facts)
        self.turn = structs.replace(
            self.turn, tools=None, system=None, router=None, output=role.output, check=role.check
        )
        system = await instructions_of(role.system, self.context(abort))
        await self.journal.append(SettingsChanged(system=system, agent=role.name))

    async def instruct(self, abort: asyncio.Event) -> None:
        """Write the system prompt of the turn that begins, where a function makes it."""
        if isinstance(self.role.system, str):
            return
        system = await instructions_of(self.role.system, self.context(abort))
        if system != self.journal.state.conversation.system:
            await self.journal.append(SettingsChanged(system=system))

    def context(self, abort: asyncio.Event) -> Context[Any]:
        """For functions that are no tools: instructions, and checks of answers."""
        host = self.scheduler.host
        return Context(
            deps=host.deps, abort=abort, progress=_unheard, session=self.journal.session, host=host
        )

    async def open(self, *, keep_turn: bool = False) -> None:
        """Begin the session, or resume it where it was left. `keep_turn`: with a turn that another process has begun, which can
        do nothing more from then on."""
        async with self._opening:
            if self.is_open:
                return
            settings = self.settings
            self.providers = settings.providers or default_providers()
            self.prices = prices_of(self.providers)
            self.facts = facts_from(self.providers)
            if not self.model and settings.session is None:
                self.model = default_route(self.providers) or ""
            name = self.model if isinstance(self.model, str) else self.model.name
            store = settings.store or MemoryStore()
            self.journal = await self._open_journal(store, name, keep_turn=keep_turn)
            self._resources.push_async_callback(self.journal.close)
            try:
                chosen = self.model or self.journal.state.model or default_route(self.providers) or ""
                self.model = self.router = router_for(chosen, self.facts)
            except BaseException:
                await self._resources.aclose()
                raise
            await self._resources.enter_async_context(self.journal.hold())
            host = Host(
                providers=self.providers,
                store=self.journal.store,
                approval=settings.approval,
                router=lambda: self.router,
                deps=settings.deps,
            )
            self.scheduler = Scheduler(self.journal, host)
            # Opened again after it was closed, it is still the same session, as it was left.
            self.settings = structs.replace(
                settings,
                session=self.journal.session,
                store=self.journal.store,
                providers=self.providers,
                title="",
                options=NO_OPTIONS,
                take_over=False,
                history=None,
            )
            if isinstance(self.role.system, str):
                self.role = structs.replace(self.role, system="")
            self.is_open = True
            if not keep_turn:
                await self.rest()

    async def rest(self) -> None:
        """While a turn waits for somebody's answer, the session is free: whoever answers writes it, from any process."""
        if self.journal.state.waits:
            await self.journal.rest()

    async def _open_journal(self, store: Store, model: str, *, keep_turn: bool) -> Journal:
        """The session that was asked for, as it was left; or a new one."""
        settings, history = self.settings, self.settings.history
        if settings.session is not None:
            try:
                take_over = settings.take_over or keep_turn
                journal = await Journal.resume(
                    store, settings.session, take_over=take_over, keep_turn=keep_turn
                )
            except JournalError as error:
                if error.code != "unknown_session":
                    raise
            else:
                try:
                    await self._take_up(journal)
                except BaseException:
                    await journal.close()
                    raise
                return journal
        system = self.role.system if isinstance(self.role.system, str) else ""
        started = SessionStarted(
            model=model,
            system=system,
            title=settings.title or (history.title if history is not None else ""),
            directory=settings.directory,
            parent=settings.parent,
            options=settings.options,
        )
        if history is None:
            return await Journal.start(store, started, settings.session or "")
        adopted, self.adoption_repairs = history.adopted, history.repairs
        if system:
            adopted = structs.replace(
                adopted, conversation=structs.replace(adopted.conversation, system=system)
            )
        return await Journal.start(store, started, settings.session or "", more=(adopted,))

    async def _take_up(self, journal: Journal) -> None:
        """A session as it was left: with the role that the conversation was handed over to."""
        if self.settings.history is not None:
            raise UsageError(
                f'The session "{journal.session}" has a conversation of its own: a history begins a new one.',
                code="session_has_history",
                path="history",
                hint="Give another session, or no history.",
            )
        name = journal.state.agent
        if self.roles and name and name != self.role.name:
            if name not in self.roles:
                raise UsageError(
                    f'The session "{journal.session}" was handed over to "{name}", which is not known here.',
                    code="unknown_agent",
                    path="handoffs",
                    hint="Give the agent that hands over to it.",
                )
            self.role = self.roles[name]
            self.model, self._tools = self._model_of(self.role), self._tools_of(self.role)
        await _update(journal, self.settings, self.role.system)

    async def close(self) -> None:
        """Release the session; it can be opened again."""
        # Whoever opens it meanwhile waits: else we would hold our own session against ourselves.
        async with self._opening:
            was_open, self.is_open = self.is_open, False
            if was_open:
                await self._resources.aclose()

    def require_open(self) -> ChatSession:
        if not self.is_open:
            raise UsageError(
                "The chat is not open.",
                code="not_open",
                hint="Use `async with Chat(…)`, or await chat.open().",
            )
        return self

    def checked_router(self, model: Model) -> Router:
        """Raises where its first member names no provider."""
        router = router_for(model, self.facts)
        for route in router.routes[:1]:
            provider_of(route, self.providers)
        return router

    def turn_settings(self, output: Any, options: TurnOptions, *, partial: bool = False) -> TurnSettings:
        """What a caller gives for one turn, checked before it begins."""
        budget = self.settings.budget
        if (max_turns := options.get("max_turns")) is not None:
            budget = structs.replace(budget, max_turns=max_turns)  # raises where it allows none
        model = model_of(options)
        return TurnSettings(
            output=self.role.output if output is None else output_type(output),
            check=options.get("check") or (self.role.check if output is None else None),
            router=self.checked_router(model) if model is not None else None,
            tools=self.tool_set(options["tools"]) if "tools" in options else None,
            options=options_of(options),
            system=encodable(options["system"]) if "system" in options else None,
            budget=budget,
            partial=partial,
        )

    def request(self, route: Route) -> ChatRequest:
        """What a route would be sent now; what its model lacks, in words."""
        state, output = self.journal.state, self.turn.output
        options = self.turn.options.over(route.options.over(state.options))
        if output is not None:
            options = structs.replace(options, response_schema=output.schema)
        system, conversation = self.turn.system, state.conversation
        if system is not None:
            conversation = structs.replace(conversation, system=system)
        if not self._sends_given_seals:
            conversation = structs.replace(
                conversation, messages=tuple(map(_unsealed, conversation.messages))
            )
        request = ChatRequest(
            model=route.model,
            conversation=conversation,
            ledger=state.ledger,
            tools=self.tools.specs,
            options=options,
            context=route.context,
            policy=self.settings.policy,
        )
        with suppress(SegueError):  # the router skips a route that cannot be used, and reports why
            return fitted_to_model(request, provider_of(route, self.providers))
        return request

    def leave_given_seals(self) -> bool:
        """Send no seals that came with a history: another account may have made them. False if none is sent already."""
        messages = self.journal.state.conversation.messages
        if not self._sends_given_seals or all(_unsealed(message) is message for message in messages):
            return False
        self._sends_given_seals = False
        return True

    def preview(self, route: Route) -> RequestSent:
        """The request that a route would get now. Raises where its provider cannot show it."""
        preview = provider_of(route, self.providers).capabilities.preview
        if preview is None:
            raise UsageError(
                f'Provider "{route.provider}" cannot show what it would send.',
                code="no_preview",
                hint="Choose one that speaks over a wire.",
            )
        return preview(self.request(route))

    def unseen(self, route: Route, message: Message) -> tuple[Media, ...]:
        """Media of a message that a model cannot take, each found by making the request that it would get."""
        preview = provider_of(route, self.providers).capabilities.preview
        if preview is None:
            return ()
        request, lost = self.request(route), []
        for block in message.blocks:
            if type(block) is not Media:
                continue
            alone = structs.replace(request, conversation=Conversation((Message("user", (block,)),)))
            if any(repair.kind == "media_described" for repair in preview(alone).repairs):
                lost.append(block)
        return tuple(lost)

    def losses(self, route: Route) -> tuple[Repair, ...]:
        """What a model cannot be sent, found by making the request that it would get."""
        preview = provider_of(route, self.providers).capabilities.preview
        if preview is None or not self.journal.state.conversation.messages:
            return ()
        try:
            repairs = preview(self.request(route)).repairs
        except SegueError:  # the request itself will fail, with a remedy of its own
            return ()
        return tuple(repair for repair in repairs if repair.lossy)


def _named(model: str, providers: Providers | None) -> Route:
    """A bare name is a model of the default provider, if there is one."""
    bare = "/" not in model and ":" not in model
    return (default_route(providers, model) if bare else None) or parse_route(model)


@lru_cache(maxsize=1)
def default_providers() -> Providers:
    """One registry for all chats: they share its connections."""
    from segue.providers.registry import default_registry  # noqa: PLC0415 - reads what is configured

    return default_registry()


def _unheard(_message: str) -> None:
    """Nobody listens to the progress of what is no call."""


async def _update(journal: Journal, settings: ChatSettings, system: SystemPrompt) -> None:
    """What is given now holds from now on; the rest stays as the session has it."""
    state = journal.state
    known = ("", state.conversation.system)
    changed = SettingsChanged(
        system=system if isinstance(system, str) and system not in known else None,
        options=settings.options if settings.options not in (NO_OPTIONS, state.options) else None,
        title=settings.title if settings.title not in ("", state.title) else None,
    )
    if changed != SettingsChanged():
        await journal.append(changed)


def check_kinds(model: object, settings: ChatSettings) -> None:
    """Raises UsageError for what cannot be meant: of another kind than what stands there, by its class alone, as it may hold a
    password."""
    for path, given, fits, hint in (
        (
            "model",
            model,
            isinstance(model, str | Route) or hasattr(model, "routes"),
            'Give "provider/model".',
        ),
        (
            "store",
            settings.store,
            hasattr(settings.store, "create"),
            "Give a store, for example SQLiteStore(path).",
        ),
        (
            "providers",
            settings.providers,
            hasattr(settings.providers, "get"),
            "Give a dict of providers by name, or a registry.",
        ),
        ("options", settings.options, isinstance(settings.options, Options), "Write options=Options(…)."),
        ("budget", settings.budget, isinstance(settings.budget, Budget), "Write budget=Budget(…)."),
        ("policy", settings.policy, isinstance(settings.policy, Policy), "Write policy=Policy(…)."),
        (
            "compaction",
            settings.compaction,
            isinstance(settings.compaction, CompactionSettings),
            "Write compaction=CompactionSettings(…).",
        ),
    ):
        if given is not None and not fits:
            raise UsageError(
                f"{type(given).__name__} cannot be given here.", code="bad_option", path=path, hint=hint
            )


def _unsealed(message: Message) -> Message:
    """A reply that came with a history, with seals that nobody opens; the very same if it has none. Replies of ours know their
    endpoint."""
    if message.origin is None or message.origin.endpoint:
        return message
    blocks = tuple(
        structs.replace(block, seal=structs.replace(block.seal, origin=Origin(block.seal.origin.dialect)))
        if isinstance(block, Text | Reasoning | ToolCall) and block.seal is not None
        else block
        for block in message.blocks
    )
    return message if blocks == message.blocks else structs.replace(message, blocks=blocks)

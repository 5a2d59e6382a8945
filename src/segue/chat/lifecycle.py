"""The session of a chat: opened when it is first needed, closed, and opened again as it was left.

It owns what all turns have in common: journal, router, tools, and what was learned about the models.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, final

from msgspec import Struct, structs

from segue.chat.budget import Budget
from segue.chat.compaction.trigger import CompactionSettings, Compactor
from segue.chat.output_type import output_type
from segue.chat.turn_settings import TurnOptions, TurnSettings, model_of, options_of
from segue.conversation.blocks import Media
from segue.conversation.json_safe import encodable
from segue.conversation.message import Conversation, Message
from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import JournalError, SegueError, UsageError
from segue.providers.adapter import ChatRequest, Providers, RequestSent
from segue.providers.models.prices import PriceBook, prices_of
from segue.providers.text_requests import fitted_to_model
from segue.routing.route import Route, default_route, facts_from, parse_route, provider_of
from segue.routing.router import Model, Router, router_for
from segue.sessions.entries import Link, SessionStarted, SettingsChanged
from segue.sessions.journal import Journal
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.store import Store
from segue.tools.approval import own_functions_only
from segue.tools.definition import Approves, Host, ToolSet
from segue.tools.function_tools import as_tool
from segue.tools.scheduler import Scheduler
from segue.transcript.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from segue.routing.route import Facts
    from segue.tools.definition import Tool
    from segue.transcript.repairs import Repair


@final
class ChatSettings(Struct, frozen=True, kw_only=True):
    """What a chat is opened with, besides its model and its tools."""

    system: str = ""
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
        self, model: Model, tools: Iterable[Tool | Callable[..., Any]], settings: ChatSettings
    ) -> None:
        self.model: Model = _named(model, settings.providers) if isinstance(model, str) and model else model
        self.settings = settings
        self.is_open = False
        self.compactor = Compactor(self)
        self.reported: set[Repair] = set()
        """Repairs that were reported already."""
        self.skipped: dict[str, str] = {}
        """Members of the router that the last turn could not go to, each with the code of the reason."""
        self.turn = TurnSettings()
        """Of the turn that runs."""
        self._opening = asyncio.Lock()
        self._resources = AsyncExitStack()
        self._tools = self.tool_set(tools)

    @property
    def tools(self) -> ToolSet:
        """Those of the turn that runs, where it has its own."""
        return self._tools if self.turn.tools is None else self.turn.tools

    def equip(self, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        """Offer these tools from now on."""
        self._tools = self.tool_set(tools)

    def tool_set(self, tools: Iterable[Tool | Callable[..., Any]]) -> ToolSet:
        offered = [as_tool(tool) for tool in tools]
        return ToolSet(offered, self.settings.approval or own_functions_only(offered))

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
            self.journal = await _open_journal(
                settings, settings.store or MemoryStore(), name, keep_turn=keep_turn
            )
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
            )
            self.scheduler = Scheduler(self.journal, host)
            # Opened again after it was closed, it is still the same session, as it was left.
            self.settings = structs.replace(
                settings,
                session=self.journal.session,
                store=self.journal.store,
                providers=self.providers,
                system="",
                title="",
                options=NO_OPTIONS,
                take_over=False,
            )
            self.is_open = True

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

    def turn_settings(self, output: Any, options: TurnOptions) -> TurnSettings:
        """What a caller gives for one turn, checked before it begins."""
        budget = self.settings.budget
        if (max_turns := options.get("max_turns")) is not None:
            budget = structs.replace(budget, max_turns=max_turns)  # raises where it allows none
        model = model_of(options)
        return TurnSettings(
            output=None if output is None else output_type(output),
            router=self.checked_router(model) if model is not None else None,
            tools=self.tool_set(options["tools"]) if "tools" in options else None,
            options=options_of(options),
            system=encodable(options["system"]) if "system" in options else None,
            budget=budget,
        )

    def request(self, route: Route) -> ChatRequest:
        """What a route would be sent now; what its model lacks, in words."""
        state, output = self.journal.state, self.turn.output
        options = self.turn.options.over(route.options.over(state.options))
        if output is not None:
            options = structs.replace(options, response_schema=output.schema)
        system = self.turn.system
        request = ChatRequest(
            model=route.model,
            conversation=state.conversation
            if system is None
            else structs.replace(state.conversation, system=system),
            ledger=state.ledger,
            tools=self.tools.specs,
            options=options,
            context=route.context,
            policy=self.settings.policy,
        )
        with suppress(SegueError):  # the router skips a route that cannot be used, and reports why
            return fitted_to_model(request, provider_of(route, self.providers))
        return request

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


async def _open_journal(settings: ChatSettings, store: Store, model: str, *, keep_turn: bool) -> Journal:
    """The session that was asked for, as it was left; or a new one."""
    if settings.session is not None:
        try:
            take_over = settings.take_over or keep_turn
            journal = await Journal.resume(store, settings.session, take_over=take_over, keep_turn=keep_turn)
        except JournalError as error:
            if error.code != "unknown_session":
                raise
        else:
            await _update(journal, settings)
            return journal
    started = SessionStarted(
        model=model,
        system=settings.system,
        title=settings.title,
        directory=settings.directory,
        parent=settings.parent,
        options=settings.options,
    )
    return await Journal.start(store, started, settings.session or "")


async def _update(journal: Journal, settings: ChatSettings) -> None:
    """What is given now holds from now on; the rest stays as the session has it."""
    state = journal.state
    changed = SettingsChanged(
        system=settings.system if settings.system not in ("", state.conversation.system) else None,
        options=settings.options if settings.options not in (NO_OPTIONS, state.options) else None,
        title=settings.title if settings.title not in ("", state.title) else None,
    )
    if changed != SettingsChanged():
        await journal.append(changed)

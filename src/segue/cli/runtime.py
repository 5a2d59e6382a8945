"""What a chat on the command line is made of: settings and flags turned into providers, tools, store and model.

One-shot and interactive chats are opened here in the same way; they differ only in who handles the events.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import msgspec

from segue.chat.chat import Chat
from segue.chat.compaction.trigger import CompactionSettings
from segue.chat.turn_settings import Budget
from segue.cli.commands.sessions import find_session
from segue.cli.display.status_lines import switch_line
from segue.cli.flag_values import given_options
from segue.cli.instructions import find_instructions, system_prompt
from segue.cli.model_choice import default_model_of, discover_model, full_name
from segue.cli.tool_loader import NONE, ToolSource, is_agent, is_function
from segue.cli.tool_memory import approve_given, restore, whole_name
from segue.config.layers import load_settings
from segue.config.model_names import ModelChoice, resolve_model, with_options
from segue.config.paths import project_file
from segue.config.resources import (
    configured_providers,
    open_providers,
    open_router,
    open_sandbox,
    open_servers,
    require_provider,
)
from segue.config.session_stores import open_store
from segue.config.trust import MCP_FILE, approve_copy
from segue.conversation.options import Options
from segue.errors import SegueError, TranscriptError, UsageError
from segue.routing.route import Route, facts_from
from segue.routing.router import SingleRouter
from segue.sessions.entries import AllowedCall, SettingsChanged, ToolGrant
from segue.sessions.journal import fork
from segue.sessions.stores.memory import MemoryStore
from segue.system.worker_threads import in_thread
from segue.tools.approval import Approval, Pattern, parse_pattern

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from segue.cli.tool_memory import AskConsent
    from segue.events import Switch
    from segue.providers.registry import KnownProviders
    from segue.routing.retry import RetrySettings
    from segue.routing.router import Model, Router
    from segue.sessions.stores.store import SessionInfo, Store
    from segue.tools.definition import Tool
    from segue.tools.mcp.servers import McpServers
    from segue.tools.sandbox.sandbox import Sandbox


PATIENCE_SECONDS: Final = 2.0
"""After this time a user learns what is waited for."""


@final
class Runtime:
    """Settings and flags of one run, and everything opened for it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        settings = load_settings(sets=arguments.sets, bare=arguments.bare)
        config = self.config = settings.config
        self.directory = Path.cwd()
        self.workspace = (
            Path(config.tools.workspace).expanduser() if config.tools.workspace else self.directory
        )
        """Where the built-in tools work."""
        self.providers: KnownProviders = open_providers(config)
        self.store: Store = MemoryStore() if arguments.no_session else open_store(config)
        self.retry: RetrySettings | None = None
        """How patiently a single model is asked again; None: as the library does. A profile has its own."""
        without_tools = NONE in arguments.tools
        self._tool_names = [whole_name(name) for name in arguments.tools if name != NONE]
        """Tools that the settings do not have: of the flags, or else of the session."""
        enabled = [] if without_tools else config.tools.enabled
        self._source = ToolSource(
            self.directory, self.workspace, config.tools.timeout, self.model, lambda: self.sandbox
        )
        self.tools: tuple[Tool, ...] = self._source.load([*enabled, *self._tool_names])
        self.mcp: McpServers | None = None
        self._untrusted: list[str] = []
        servers_file = project_file(settings.folders, (MCP_FILE,)) if config.mcp.project_file else None
        if config.mcp.servers or servers_file is not None:
            servers, untrusted = open_servers(config.mcp, servers_file, self.sandbox)
            self.mcp = None if without_tools else servers
            if untrusted is not None:
                self._untrusted.append(
                    f"{untrusted} is not trusted, so its servers are not used. To use them: segue trust"
                )
        mode = "yolo" if arguments.yolo else arguments.approval_mode or config.approval.mode
        self.approval = Approval(mode, allow=config.approval.allow, deny=config.approval.deny)
        allowed = [name.strip() for name in arguments.allowed_tools.split(",") if name.strip()]
        self.approval.always += [parse_pattern(text) for text in allowed]
        self._allow_own(self._tool_names)
        self.given = given_options(arguments)
        """Options of the flags and of /set: they count more than what the settings have for a model."""
        self.options = self.given
        if config.effort is not None:
            self.options = self.given.over(Options(effort=config.effort))
        self.budget = Budget(max_turns=arguments.max_turns or config.limits.max_turns)
        instructions = find_instructions(
            settings.folders, config.ui.instructions, trusted=settings.trusts_project
        )
        self.instructions = [str(path) for path in instructions.texts]
        """Files of the project that are part of the system prompt."""
        self._unasked = ""
        """The session whose tools stay as they are kept, because nobody could be asked about some of them."""
        self.not_restored: list[str] = []
        """What a resumed session had and does not have now, one line each."""
        self.ignored = [*settings.ignored, *instructions.refusals, *self._untrusted]
        """What the folder supplies and is not used before it is trusted, one line each."""
        self._system = system_prompt(
            config.system if arguments.system is None else arguments.system,
            instructions,
            append=arguments.append_system,
        )

    @cached_property
    def sandbox(self) -> Sandbox:
        """What commands of the model and MCP servers run in."""
        return open_sandbox(self.config, self.workspace, self._arguments.sandbox)

    @property
    def runs_commands(self) -> bool:
        """Whether a tool is offered that starts programs."""
        return any(tool.sandbox is not None for tool in self.tools)

    # Models

    def model(self, name: str) -> Route | Router:
        """The route or router behind an alias, a profile or provider/model."""
        return self._open(self.resolve(name))

    def resolve(self, name: str, provider: str = "") -> ModelChoice:
        """The models behind a name."""
        if not provider and "/" not in name:
            name = full_name(name, self.config, self.providers)
        return resolve_model(name, self.config, provider=provider)

    def configured(self) -> list[str]:
        """Providers that the user has set up."""
        return configured_providers(self.config, self.providers)

    async def _first_model(
        self, session: SessionInfo | None, report: Callable[[str], None]
    ) -> Route | Router:
        """The model of the flags, of the session, of the settings, or a discovered one, in this order."""
        name, provider = self._arguments.model, self._arguments.provider
        if provider and not name:
            name = default_model_of(provider, self.config)
            if not name:
                raise UsageError(
                    f"{provider} has no default model.",
                    code="no_model",
                    hint="Name a model as well: -m MODEL.",
                )
        chosen_provider = provider if name else ""
        name = name or self._session_model(session) or self.config.model
        if not name:
            discovered = await discover_model(self.config, self.providers)
            report(str(discovered))
            name = discovered.model
        chosen = self.resolve(name, chosen_provider)
        if self._arguments.fallback:
            chosen = self._with_fallback(chosen)
        return self._open(chosen)

    def _session_model(self, session: SessionInfo | None) -> str:
        """The last model of a session; the configured profile if the model is a member of it."""
        name, configured = session.model if session else "", self.config.model
        is_member = configured in self.config.profiles and name in self.resolve(configured).members
        return configured if is_member else name

    def _with_fallback(self, chosen: ModelChoice) -> ModelChoice:
        names = [name.strip() for name in self._arguments.fallback.split(",") if name.strip()]
        more = [route for name in names for route in self.resolve(name).routes]
        routes = {route.name: route for route in (*chosen.routes, *more)}
        return ModelChoice(tuple(routes.values()), " or ".join(routes))

    def _open(self, chosen: ModelChoice) -> Route | Router:
        for route in chosen.routes:
            require_provider(route.provider, self.providers)
        routes = chosen.routes
        if self.config.options:
            routes = tuple(with_options(route, self.config) for route in routes)
        if not chosen.profile and self.retry is not None:
            return SingleRouter(routes[0], facts_from(self.providers), retry=self.retry)
        if not chosen.profile:
            return routes[0]
        return open_router(chosen.profile, routes, chosen.settings, self.providers)

    # Chats

    async def open_chat(
        self,
        *,
        report: Callable[[str], None],
        on_switch: Callable[[Switch], None],
        ask: AskConsent | None = None,
    ) -> Chat:
        """A new chat, or the session that -c or -r name, with its tools. `report` gets lines for the user; a change of
        model is passed to `on_switch`, or refused with --strict if the new model would see less. `ask`: asks whether
        something that could do harm may be used again; None if nobody can be asked."""
        arguments = self._arguments
        resumes = arguments.last or arguments.resume is not None
        session = await self._session_to_resume() if resumes else None
        model = await self._first_model(session, report)
        read = [f"Instructions of the project: {', '.join(self.instructions)}"] if self.instructions else []
        unusable = [] if self.mcp is None else await self._open_tools(self.mcp, report)
        for line in [*self._source.problems, *self.ignored, *read, *unusable, *await self._missing_sandbox()]:
            report(line)
        if session is not None and arguments.fork:
            session = await self._forked(session)
        if session is None:
            return self.chat(model=model)
        previous = self._previous_model(session, model)
        chat = self.chat(session=session.id, model=previous or model)
        await chat.open()
        try:
            for line in await self.restore_tools(chat, ask):
                report(line)
        except BaseException:
            await chat.close()
            raise
        if previous is None:
            return chat
        switch = await chat.switch(model)
        if switch is not None and switch.losses and arguments.strict:
            await chat.switch(previous)
            await chat.close()
            raise lossy_switch_error(switch)
        if switch is not None:
            on_switch(switch)
        return chat

    async def _missing_sandbox(self) -> list[str]:
        """A line if commands should run in a sandbox and none works here."""
        if not self.runs_commands or not await in_thread(lambda: self.sandbox.is_missing):
            return []
        why = self.sandbox.mechanism.why
        if not self.asks_about_commands:
            return [
                f"No sandbox works here ({why}), and commands run without a question: they can do what you can do."
            ]
        return [
            f"No sandbox works here ({why}), so every command is asked about. To do without: --sandbox off"
        ]

    @property
    def asks_about_commands(self) -> bool:
        """Whether commands that nothing holds are asked about."""
        return self.approval.mode != "yolo"

    def chat(self, *, session: str | None = None, model: str | Model = "") -> Chat:
        """A chat that is not opened yet."""
        return Chat(
            self.model(model) if isinstance(model, str) and model else model,
            tools=self.tools,
            system=self._system,
            session=session,
            store=self.store,
            providers=self.providers,
            options=self.options,
            budget=self.budget,
            approval=self.approval,
            compaction=CompactionSettings(share=self.config.limits.compact_at),
            continue_turns=self.config.continue_turns,
            directory=str(self.directory),
            take_over=self._arguments.take_over,
        )

    async def _session_to_resume(self) -> SessionInfo:
        """The one that -r names; else the last one of this directory."""
        if self._arguments.resume:
            return await find_session(self.store, self._arguments.resume)
        known = await self.store.find(limit=1000)
        here = [info for info in known if info.turns and info.directory == str(self.directory)]
        if not here:
            raise UsageError(
                "This directory has no session yet.",
                code="unknown_session",
                hint="List all sessions: segue sessions list. Resume one: segue -r ID.",
            )
        return here[0]

    async def _forked(self, session: SessionInfo) -> SessionInfo:
        journal = await fork(self.store, session.id)
        await journal.close()
        approve_copy(str(Path.cwd()), session.id, journal.session)
        return msgspec.structs.replace(session, id=journal.session)

    def _previous_model(self, session: SessionInfo, model: Route | Router) -> Route | Router | None:
        """The model that answered in the session until now; None if it is the same or no longer known."""
        routes = [model] if isinstance(model, Route) else model.routes
        if not session.model or session.model in (route.name for route in routes):
            return None
        try:
            return self.model(session.model)
        except SegueError:
            return None

    # Tools of a session

    async def restore_tools(self, chat: Chat, ask: AskConsent | None) -> list[str]:
        """Give a resumed session the tools and approvals that it had, unless the flags name others; one line for
        what it has again, and for each thing that it has not."""
        kept, arguments = chat.journal.state.tools, self._arguments
        if arguments.tools:
            kept = msgspec.structs.replace(kept, tools=())
        if arguments.yolo or arguments.approval_mode:
            kept = msgspec.structs.replace(kept, mode="")
        usual = self.config.approval.mode
        found = await restore(kept, session=chat.id, load=self._source.load, usual=usual, ask=ask)
        self._add_tools(found.tools)
        wanted = [name for name in kept.tools if name not in found.declined]
        self._tool_names = [*dict.fromkeys([*self._tool_names, *wanted])]
        self._unasked = chat.id if found.unasked else ""
        self._allow_own(found.names)
        self.approval.mode = found.mode or self.approval.mode
        self.approval.always += [Pattern(call.tool, call.subject, exact=call.exact) for call in found.allow]
        here = set() if self.mcp is None else {*self.mcp.offers, *self.mcp.problems}
        gone = [f"MCP server {name}: it is not configured here" for name in kept.servers if name not in here]
        self.not_restored = [*found.missing, *gone]
        await chat.equip(self.tools)
        names = ", ".join(tool.name for tool in found.tools)
        again = [f"Tools of this session: {names}"] if names else []
        return [*again, *(f"Not restored: {line}" for line in self.not_restored)]

    async def remember_tools(self, chat: Chat) -> None:
        """Keep the tools and approvals of now with the session."""
        usual = self.config.approval.mode
        allow = [AllowedCall(call.tool, call.subject, exact=call.exact) for call in self.approval.always]
        now = ToolGrant(
            tools=tuple(self._tool_names),
            mode="" if self.approval.mode == usual else self.approval.mode,
            allow=tuple(dict.fromkeys(allow)),
            servers=() if self.mcp is None else tuple(sorted(self.mcp.offers)),
        )
        journal = chat.journal
        fixed = self._arguments.no_session or journal.session == self._unasked
        if now != journal.state.tools and not fixed:
            await journal.append(SettingsChanged(tools=now))
            approve_given(now, journal.session)

    def _allow_own(self, names: Iterable[str]) -> None:
        """Functions of files and agents: whoever names one wants it to run. What an agent calls is judged by itself."""
        for tool in self._source.load(name for name in names if is_agent(name) or is_function(name)):
            self.approval.allow_tool(tool.name)

    # MCP servers

    async def reload_servers(self) -> None:
        """Ask all MCP servers for their tools again."""
        if self.mcp is not None:
            old = {tool.name for tool in await self.mcp.tools()}
            self.tools = tuple(tool for tool in self.tools if tool.name not in old)
            self._add_tools(await self.mcp.reload())

    def load_tools(self, names: Iterable[str]) -> None:
        """Offer these too, as if they had been asked for at the start."""
        self._add_tools(self._source.load(names))

    def _add_tools(self, more: Iterable[Tool]) -> None:
        known = {tool.name for tool in self.tools}
        self.tools = (*self.tools, *(tool for tool in more if tool.name not in known))

    async def _open_tools(self, servers: McpServers, report: Callable[[str], None]) -> list[str]:
        """Add the tools of the MCP servers; one line for each server that could not be used."""
        waiting = asyncio.get_running_loop().call_later(
            PATIENCE_SECONDS, lambda: report(f"Waiting for MCP servers: {', '.join(servers.waiting)}")
        )
        try:
            self._add_tools(await servers.tools())
        finally:
            waiting.cancel()
        return [
            f"MCP server {name}: {problem.message} {problem.hint}".rstrip()
            for name, problem in servers.problems.items()
        ]

    def servers(self) -> list[str]:
        """The MCP servers in use, one line each, and why others are not."""
        if self.mcp is None:
            return self._untrusted
        asleep = self.mcp.unstarted
        lines = [
            f"{name}: {count} tools{' · starts when one is called' if name in asleep else ''}"
            for name, count in self.mcp.offers.items()
        ]
        problems = [f"{name}: {problem.message}" for name, problem in self.mcp.problems.items()]
        return [*lines, *problems, *self._untrusted]

    async def close(self) -> None:
        if self.mcp is not None:
            await self.mcp.close()
        await self.store.close()


def lossy_switch_error(switch: Switch) -> TranscriptError:
    """With --strict, a switch that hides something from the new model is refused."""
    return TranscriptError(
        f"The switch was refused, because the new model would see less: {switch_line(switch)}.",
        code="would_lose",
        hint="Without --strict the switch is allowed. The session keeps everything.",
    )

"""What the command line has found and made before a chat begins. One-shot and interactive chats begin with the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, final

from segue.chat.budget import Budget
from segue.chat.chat import Chat
from segue.chat.compaction.trigger import CompactionSettings
from segue.cli.commands.sessions import find_session
from segue.cli.instructions import system_prompt
from segue.cli.mcp_file import open_servers, untrusted_mcp_file
from segue.cli.model_discovery import DiscoveredModel, find_model, usual_model
from segue.cli.tool_loader import is_function, tools_named
from segue.config.layers import load_settings
from segue.config.model_names import ModelChoice, resolve_model
from segue.config.resources import (
    configured_providers,
    open_providers,
    open_router,
    open_store,
    require_provider,
)
from segue.conversation.options import Options
from segue.errors import UsageError
from segue.routing.route import parse_route
from segue.tools.approval import Approval

if TYPE_CHECKING:
    import argparse

    from segue.chat.lifecycle import Model
    from segue.config.layers import Settings
    from segue.providers.registry import KnownProviders
    from segue.sessions.stores.store import SessionInfo, Store
    from segue.tools.definition import Tool


@final
class Runtime:
    """Settings and flags, made into what a chat is made of."""

    def __init__(
        self, arguments: argparse.Namespace, *, response_schema: dict[str, object] | None = None
    ) -> None:
        self.settings: Settings = load_settings(sets=arguments.sets, bare=arguments.bare)
        self.config = self.settings.config
        self.directory = Path.cwd()
        self.providers: KnownProviders = open_providers(self.config)
        self.store: Store = _store(self.settings, arguments)
        self.tools: tuple[Tool, ...] = tools_named(
            [*self.config.tools.enabled, *arguments.tools],
            workspace=self.workspace,
            timeout=self.config.tools.timeout,
        )
        self.mcp = open_servers(self.config.mcp, self.directory, bare=arguments.bare)
        self.approval = self._approval(arguments)
        self.options = Options(effort=arguments.effort or self.config.effort, response_schema=response_schema)
        self.budget = Budget(max_turns=arguments.max_turns or self.config.limits.max_turns)
        self._arguments = arguments
        self._system = self._system_prompt(arguments)

    # Who answers

    async def first_model(self, session: SessionInfo | None = None) -> tuple[Model, DiscoveredModel | None]:
        """Who answers first: as told, as the session has it, as configured, or as found."""
        told, provider = self._arguments.model, self._arguments.provider
        if provider and not told:
            told = usual_model(provider, self.config)
            if not told:
                raise UsageError(
                    f"No usual model is known for {provider}.",
                    code="no_model",
                    hint="Name one too: -m MODEL.",
                )
        name = told or self._model_of(session) or self.config.model
        found = None
        if not name:
            found = await find_model(self.config, self.providers)
            name = found.model
        return self._with_fallback(resolve_model(name, self.config, provider=provider if told else "")), found

    def _model_of(self, session: SessionInfo | None) -> str:
        """Who answered in a session; the profile that is configured, if it was one of its members."""
        name = session.model if session else ""
        profile = self.config.profiles.get(self.config.model)
        return (
            self.config.model
            if profile is not None and name in resolve_model(self.config.model, self.config).members
            else name
        )

    def model(self, name: str) -> Model:
        """What a name stands for: an alias, a profile or provider/model."""
        return self._made(resolve_model(name, self.config))

    def members(self, name: str) -> tuple[str, ...]:
        """The models that a name stands for, provider/model each."""
        return resolve_model(name, self.config).members

    def model_names(self) -> list[str]:
        """What could be typed after /model, without asking anybody."""
        usual = [f"{name}/{model}" for name in self.configured() if (model := usual_model(name, self.config))]
        return [*self.config.aliases, *self.config.profiles, *usual]

    def usual_model(self, provider: str) -> str:
        """The model a provider is asked for when nobody names one; nothing if none is known."""
        return usual_model(provider, self.config)

    def configured(self) -> list[str]:
        """Providers that somebody set up."""
        return configured_providers(self.config, self.providers)

    def _with_fallback(self, chosen: ModelChoice) -> Model:
        others = [name for name in self._arguments.fallback.split(",") if name.strip()]
        if not others:
            return self._made(chosen)
        more = [member for name in others for member in resolve_model(name.strip(), self.config).members]
        members = tuple(dict.fromkeys((*chosen.members, *more)))
        for member in members:
            require_provider(parse_route(member).provider, self.providers)
        return open_router(" or ".join(members), members, None, self.providers)

    def _made(self, chosen: ModelChoice) -> Model:
        routes = [parse_route(member) for member in chosen.members]
        for route in routes:
            require_provider(route.provider, self.providers)
        if chosen.settings is None:
            return routes[0]
        return open_router(chosen.profile, chosen.members, chosen.settings, self.providers)

    # The chat

    def chat(self, *, session: str | None = None, model: str | Model = "") -> Chat:
        """A chat in these runtime, not opened yet."""
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
            directory=str(self.directory),
            take_over=self._arguments.take_over,
        )

    async def session_to_continue(self) -> SessionInfo | None:
        """The session that -c or -r mean; nothing for a new one."""
        if self._arguments.resume:
            return await find_session(self.store, self._arguments.resume)
        if self._arguments.resume is None and not self._arguments.last:
            return None
        here = [info for info in await self.store.find(limit=1000) if info.directory == str(self.directory)]
        if not here:
            raise UsageError(
                "No session was begun in this directory.",
                code="unknown_session",
                hint="`segue sessions list` shows all of them; go on with one: -r ID.",
            )
        return here[0]

    # Beside it

    async def open_tools(self) -> list[str]:
        """Start the MCP servers and take their tools in; why some could not be, one line each."""
        if self.mcp is None:
            return []
        found = await self.mcp.tools()
        known = {tool.name for tool in self.tools}
        self.tools = (*self.tools, *(tool for tool in found if tool.name not in known))
        return [
            f"MCP server {name}: {problem.message} {problem.hint}".rstrip()
            for name, problem in self.mcp.problems.items()
        ]

    async def close(self) -> None:
        if self.mcp is not None:
            await self.mcp.close()
        await self.store.close()

    def servers(self) -> list[str]:
        """The MCP servers in reach, one line each, and what keeps others out."""
        if self.mcp is None:
            return self.untrusted()
        lines = [f"{name}: {count} tools" for name, count in self.mcp.offers.items()]
        problems = [f"{name}: {problem.message}" for name, problem in self.mcp.problems.items()]
        return [*lines, *problems, *self.untrusted()]

    def untrusted(self) -> list[str]:
        """What a project offers and nobody has trusted."""
        file = None if self._arguments.bare else untrusted_mcp_file(self.directory)
        return (
            [f"{file} is not trusted, so its servers are not used. To use them: segue trust"] if file else []
        )

    def ask_key(self, provider: str) -> None:
        """Ask for a key without showing it, and keep it."""
        from segue.cli.commands.keys import ask_and_store  # noqa: PLC0415

        ask_and_store(provider)

    @property
    def workspace(self) -> Path:
        """Where the built-in tools work."""
        return (
            Path(self.config.tools.workspace).expanduser() if self.config.tools.workspace else self.directory
        )

    def _approval(self, arguments: argparse.Namespace) -> Approval:
        mode = "yolo" if arguments.yolo else arguments.approval_mode or self.config.approval.mode
        allowed = [name.strip() for name in arguments.allowed_tools.split(",") if name.strip()]
        # Who names a function of their own on the command line wants it to run.
        own = tools_named([n for n in arguments.tools if is_function(n)], workspace=self.workspace)
        allow = [*self.config.approval.allow, *allowed, *(tool.name for tool in own)]
        return Approval(mode, allow=allow, deny=self.config.approval.deny)

    def _system_prompt(self, arguments: argparse.Namespace) -> str:
        own = self.config.system if arguments.system is None else arguments.system
        names = () if arguments.bare else self.config.ui.instructions
        return system_prompt(own, directory=self.directory, names=names, append=arguments.append_system)


def _store(settings: Settings, arguments: argparse.Namespace) -> Store:
    if arguments.no_session:
        from segue.sessions.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore()
    return open_store(settings.config)

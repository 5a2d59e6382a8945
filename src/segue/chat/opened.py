"""A session that is opened when it is first needed, and what can be seen of it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self, TypeAlias

from msgspec import structs

from segue.chat.opening import Settings, default_providers, default_store, make_session, open_journal
from segue.conversation.document import encode_document
from segue.conversation.options import Options
from segue.errors import UsageError
from segue.providers.adapter import Previews
from segue.routing.member_facts import facts_from, provider_of
from segue.routing.policies import SingleRouter
from segue.routing.route import Route, parse_route
from segue.routing.router import Router

if TYPE_CHECKING:
    from segue.chat.session import Session
    from segue.conversation.interaction import Ledger
    from segue.conversation.message import Conversation
    from segue.conversation.usage import Usage
    from segue.providers.adapter import Providers, Sent
    from segue.sessions.journal import Journal

Model: TypeAlias = str | Route | Router
"""`provider/model`, a route, or a router that chooses one for each turn."""


class Opened:
    """The part of a chat that holds its session."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self._model: Model = parse_route(model) if isinstance(model, str) and model else model
        self._settings = settings
        self._session: Session | None = None
        self._router: Router | None = None
        self._opening = asyncio.Lock()
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Begin or go on with the session. Whatever needs it open does it too."""
        async with self._opening:
            if self._session is None:
                self._session = await self._open()

    async def _open(self) -> Session:
        settings = self._settings
        providers = settings.providers or default_providers()
        named = self._model if isinstance(self._model, str) else self._model.name
        journal = await open_journal(settings, settings.store or default_store(), named)
        self._resources.push_async_callback(journal.close)
        try:
            self._router = self._router_for(self._router or self._model or journal.state.model, providers)
        except BaseException:
            await self._resources.aclose()
            raise
        await self._resources.enter_async_context(journal.hold())
        # Opened again after it was closed, it is still the same session, as it was left.
        self._settings = structs.replace(
            settings,
            session=journal.session,
            store=journal.store,
            providers=providers,
            system="",
            title="",
            options=Options(),
            take_over=False,
        )
        return make_session(journal, settings, providers)

    def _router_for(self, model: Model, providers: Providers) -> Router:
        if isinstance(model, str):
            model = parse_route(model)
        return SingleRouter(model, facts_from(providers)) if isinstance(model, Route) else model

    async def close(self) -> None:
        """Let go of the session; it can be opened again."""
        # Whoever opens it meanwhile waits: else we would hold our own session against ourselves.
        async with self._opening:
            session, self._session = self._session, None
            if session is not None:
                await self._resources.aclose()

    def _parts(self) -> tuple[Session, Router]:
        if self._session is None or self._router is None:
            raise UsageError(
                "The chat is not open.",
                code="not_open",
                hint="Use `async with Chat(…)`, or await chat.open().",
            )
        return self._session, self._router

    @property
    def id(self) -> str:
        """Of the session."""
        return self.journal.session

    @property
    def model(self) -> str:
        """Who answers next: `provider/model`, or the name of a router."""
        return self._parts()[1].name

    @property
    def router(self) -> Router:
        return self._parts()[1]

    @property
    def options(self) -> Options:
        return self._parts()[0].terms.options

    @property
    def journal(self) -> Journal:
        return self._parts()[0].journal

    @property
    def conversation(self) -> Conversation:
        return self.journal.state.conversation

    @property
    def ledger(self) -> Ledger:
        return self.journal.state.ledger

    @property
    def usage(self) -> Usage:
        """Of all turns ever taken in the session."""
        return self.journal.state.usage

    @property
    def cost(self) -> float | None:
        return self.journal.state.cost

    def export(self) -> bytes:
        """The conversation as a JSON document that `segue` and its tools read."""
        session, _ = self._parts()
        return encode_document(
            self.conversation, self.ledger, tools=session.terms.tools, options=session.terms.options
        )

    def view(self, model: str = "") -> bytes:
        """The request that a model would get now, as it would be sent: by default the one that answers next."""
        return self.preview(model).body

    def preview(self, model: str = "") -> Sent:
        """The same with what it took to make it sayable."""
        session, router = self._parts()
        route = parse_route(model) if model else router.routes[0]
        provider = provider_of(route, session.terms.providers)
        if not isinstance(provider, Previews):
            raise UsageError(
                f'Provider "{route.provider}" cannot tell what it would send.',
                code="no_preview",
                hint="Choose one that speaks over a wire.",
            )
        return provider.preview(session.terms.request(session.journal.state, route))

"""When a conversation is made shorter, and by whom: before a turn that would not fit, or when a model says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.chat.compaction import Strategy, Summarise, compact, needs_compaction
from segue.chat.events import Compaction, Warned
from segue.chat.facts import facts_from, has_images, provider_of
from segue.chat.router import Need
from segue.conversation.blocks import Origin
from segue.conversation.events import fold
from segue.errors import SegueError
from segue.providers.adapter import ChatRequest
from segue.sessions.entries import Compacted

if TYPE_CHECKING:
    import asyncio

    from segue.chat.exchange import Terms
    from segue.chat.route import Route
    from segue.chat.router import Router, Routing
    from segue.chat.scheduler import Emit
    from segue.conversation.message import Conversation, Message
    from segue.sessions.journal import Journal


@final
class Compacting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How and when a conversation is made shorter."""

    strategy: Strategy = "summarise"
    share: float = 0.85
    """Of what the window leaves for input: a request that takes more is shortened first."""
    target: float = 0.5
    """The share that is left of it afterwards."""
    automatic: bool = True


class Shortening:
    """Fits one session into the windows of the models it goes to."""

    def __init__(self, journal: Journal, terms: Terms, settings: Compacting) -> None:
        self.settings = settings
        self.narrator: Route | None = None
        """The route that answered last: it has read the conversation, so it can also tell it in short."""
        self._journal = journal
        self._terms = terms
        self._facts = facts_from(terms.providers)

    async def open_route(
        self, router: Router, said: Message, emit: Emit, abort: asyncio.Event | None = None
    ) -> Routing:
        """Where the turn goes, with a conversation that fits there."""
        limit = router.context_limit
        need = self._need(said)
        if self.settings.automatic and self._is_full(need, limit):
            await self.shorten(limit, "full", emit, abort)
            need = self._need(said)
        try:
            return router.open(need)
        except SegueError as error:
            window = getattr(error, "limit", None)
            if error.remedy != "shrink" or not await self.shorten(window, error.code, emit, abort):
                raise
            return router.open(self._need(said))

    async def shrink(self, route: Route, why: str, emit: Emit, abort: asyncio.Event) -> bool:
        """A model says that the conversation is too long for it, whatever we counted."""
        tokens = self.count(self._journal.state.conversation)
        window = self._facts(route).context
        limit = tokens if window is None else min(window, tokens)
        return await self.shorten(limit, why, emit, abort) is not None

    async def shorten(
        self,
        limit: int | None,
        why: str,
        emit: Emit,
        abort: asyncio.Event | None = None,
        *,
        strategy: Strategy | None = None,
    ) -> Compaction | None:
        """Make the conversation shorter; nothing if there is nothing to leave out."""
        state = self._journal.state
        whole = limit or self.count(state.conversation)
        shorter = await compact(
            state.conversation,
            state.ledger,
            strategy=strategy or self.settings.strategy,
            budget=max(1, int(whole * self.settings.target)),
            count=self.count,
            summarise=None if self.narrator is None else self._summariser(self.narrator, abort),
            window=None if self.narrator is None else self._facts(self.narrator).context,
        )
        if shorter is None or (abort is not None and abort.is_set()):
            return None
        await self._journal.append(
            Compacted(
                conversation=shorter.conversation,
                strategy=shorter.strategy,
                tokens_before=shorter.tokens_before,
                tokens_after=shorter.tokens_after,
            )
        )
        told = Compaction(shorter.strategy, why, shorter.tokens_before, shorter.tokens_after)
        emit(told)
        if shorter.problem:
            emit(Warned(shorter.problem, "compaction_fell_back"))
        return told

    def count(self, conversation: Conversation) -> int:
        """An estimate of the tokens of a request: it need not be exact, only never far too low."""
        return 1 + sum(len(str(block)) for message in conversation.messages for block in message.blocks) // 4

    def _need(self, said: Message) -> Need:
        conversation = self._journal.state.conversation.append(said)
        return Need(
            tokens=self.count(conversation),
            images=has_images(conversation),
            tools=bool(self._terms.tools),
        )

    def _is_full(self, need: Need, limit: int | None) -> bool:
        if need.tokens is None or limit is None or not self._journal.state.conversation.messages:
            return False
        return needs_compaction(need.tokens, limit, self._terms.options.max_tokens, self.settings.share)

    def _summariser(self, route: Route, abort: asyncio.Event | None) -> Summarise:
        async def summarise(conversation: Conversation) -> str:
            provider = provider_of(route, self._terms.providers)
            request = ChatRequest(
                model=route.model, conversation=conversation, options=route.options, abort=abort
            )
            events = [event async for event in provider.chat_stream(request)]
            reply = fold(events, Origin(provider=route.provider, model=route.model))
            if reply.error is not None:
                raise reply.error
            return reply.message.text

        return summarise

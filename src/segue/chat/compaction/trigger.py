"""When a conversation is made shorter, and by whom: before a turn that would not fit, or when a model says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

from msgspec import Struct, structs

from segue.chat.attempt import Attempt
from segue.chat.compaction import Strategy, budget_for, compact, needs_compaction
from segue.conversation.blocks import Media, ToolResult
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.errors import SegueError
from segue.events import Compaction, Warned
from segue.limits import COMPACT_AT, COMPACT_TO
from segue.providers.adapter import ChatRequest, CountsTokens, KnowsModels
from segue.providers.models.prices import Bill, cost_of
from segue.providers.token_counts import ASKING_SECONDS, WARNING_THRESHOLD, TokenCounter
from segue.providers.token_estimates import estimate_request, family_of
from segue.routing.member_facts import facts_from, provider_of
from segue.routing.route import Route
from segue.routing.router import Need
from segue.sessions.entries import Compacted, ModelReplied
from segue.tools.execution import let_go

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.chat.compaction import Summarise
    from segue.chat.exchange import Terms
    from segue.conversation.message import Conversation
    from segue.events import Emit
    from segue.providers.adapter import ProviderAdapter
    from segue.routing.router import Router, Routing
    from segue.sessions.journal import Journal


@final
class CompactionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How and when a conversation is made shorter."""

    strategy: Strategy = "summarise"
    share: float = COMPACT_AT
    """Of what the window leaves for input: a request that takes more is shortened first."""
    target: float = COMPACT_TO
    """The share that is left of it afterwards."""
    automatic: bool = True


class Shortening:
    """Fits one session into the windows of the models it goes to."""

    def __init__(self, journal: Journal, terms: Terms, settings: CompactionSettings) -> None:
        self.settings = settings
        self.narrator: Route | None = None
        """The route that answered last: it has read the conversation, so it can also tell it in short."""
        self._journal = journal
        self._terms = terms
        self._facts = facts_from(terms.providers)
        self._images = Images()

    async def open_route(
        self, router: Router, said: Message | None, emit: Emit, abort: asyncio.Event
    ) -> Routing:
        """Where the turn goes, with a conversation that fits there. Raises why it cannot go anywhere."""
        route, limit = router.routes[0], router.context_limit
        need = await self._need(route, said, limit, abort)
        if self._is_full(route, need, limit) and await self.shorten(route, limit, "full", emit, abort):
            need = await self._need(route, said, limit, abort)
        if need.tokens and limit and limit >= need.tokens >= limit * WARNING_THRESHOLD:
            emit(Warned(f"The conversation fills {need.tokens} of {limit} tokens.", "near_limit"))
        try:
            return router.open(need)
        except SegueError as error:
            window = getattr(error, "limit", None)
            if error.remedy != "shrink" or not self.settings.automatic:
                raise
            if not await self.shorten(route, window, error.code, emit, abort):
                raise
            return router.open(await self._need(route, said, limit, abort))

    async def shrink(self, route: Route, why: str, emit: Emit, abort: asyncio.Event) -> bool:
        """A model says that the conversation is too long for it, whatever we counted."""
        if not self.settings.automatic:
            return False
        tokens = self._counting(route.model)(self._journal.state.conversation)
        limit = min(tokens, self._facts(route).context or tokens)
        return await self.shorten(route, limit, why, emit, abort) is not None

    async def shorten(
        self,
        route: Route,
        limit: int | None,
        why: str,
        emit: Emit,
        abort: asyncio.Event,
        *,
        strategy: Strategy | None = None,
    ) -> Compaction | None:
        """Make the conversation shorter for a route; nothing if there is nothing to leave out."""
        state = self._journal.state
        count = self._counting(route.model)
        narrator, bill = self.narrator or self._remembered() or route, Bill()
        shorter = await compact(
            state.conversation,
            state.ledger,
            strategy=strategy or self.settings.strategy,
            budget=budget_for(limit or count(state.conversation), share=self.settings.target),
            count=count,
            summarise=self._summariser(narrator, abort, bill),
            window=self._facts(narrator).context,
        )
        if shorter is None or abort.is_set():
            if bill.usage != Usage():
                await self._journal.append(
                    ModelReplied(Message("model", ()), "cancelled", bill.usage, bill.cost)
                )
            return None
        await self._journal.append(
            Compacted(
                conversation=shorter.conversation,
                strategy=shorter.strategy,
                tokens_before=shorter.tokens_before,
                tokens_after=shorter.tokens_after,
                usage=bill.usage,
                cost=bill.cost,
            )
        )
        told = Compaction(
            shorter.strategy, why, shorter.tokens_before, shorter.tokens_after, bill.usage, bill.cost
        )
        emit(told)
        if shorter.problem:
            emit(Warned(shorter.problem, "compaction_fell_back"))
        return told

    def _remembered(self) -> Route | None:
        """Who answered last, where that was in another process."""
        origins = (message.origin for message in reversed(self._journal.state.conversation.messages))
        origin = next((origin for origin in origins if origin is not None), None)
        if origin is None or self._terms.providers.get(origin.provider) is None:
            return None
        return Route(provider=origin.provider, model=origin.model)

    async def _need(
        self, route: Route, said: Message | None, limit: int | None, abort: asyncio.Event
    ) -> Need:
        """What the turn asks of a model. Where an estimate comes near the limit, a provider that counts is asked."""
        terms, state = self._terms, self._journal.state
        conversation = state.conversation if said is None else state.conversation.append(said)
        request = structs.replace(terms.request(state, route), conversation=conversation)
        tokens = terms.estimator.estimate(request)
        if limit is not None and tokens > limit * self.settings.share:
            provider = provider_of(route, terms.providers)
            if isinstance(provider, CountsTokens):
                tokens = await _counted(provider, request, abort) or tokens
        return Need(tokens=tokens, images=self._images(conversation), tools=bool(terms.tools))

    def _is_full(self, route: Route, need: Need, limit: int | None) -> bool:
        if need.tokens is None or limit is None or not self.settings.automatic:
            return False
        return needs_compaction(need.tokens, limit, self._output(route), self.settings.share)

    def _output(self, route: Route) -> int | None:
        """Tokens that the answer may take: as asked for, else what the model can write at most."""
        asked = route.with_defaults(self._terms.options).options.max_tokens
        provider = provider_of(route, self._terms.providers)
        return asked or (provider.card(route.model).output if isinstance(provider, KnowsModels) else None)

    def _counting(self, model: str) -> Callable[[Conversation], int]:
        """Tokens of a request to a model, estimated: nobody is asked."""
        family = family_of(model)

        def count(conversation: Conversation) -> int:
            request = ChatRequest(model=model, conversation=conversation, tools=self._terms.tools)
            return estimate_request(request, family)

        return count

    def _summariser(self, route: Route, abort: asyncio.Event, bill: Bill) -> Summarise:
        async def summarise(conversation: Conversation) -> str:
            request = ChatRequest(model=route.model, conversation=conversation, options=route.options)
            attempt = Attempt(lambda _event: None, abort)
            reply = await attempt.run(provider_of(route, self._terms.providers), request)
            bill.add(reply.usage, cost_of(reply.usage, route.provider, route.model))
            if reply.error is not None:
                raise reply.error
            return reply.message.text

        return summarise


async def _counted(provider: ProviderAdapter, request: ChatRequest, abort: asyncio.Event) -> int | None:
    """What the provider itself counts, where it does so soon and nobody cancels meanwhile."""
    counting = asyncio.ensure_future(TokenCounter(provider).estimate_tokens(request))
    stopped = asyncio.ensure_future(abort.wait())
    try:
        await asyncio.wait({counting, stopped}, timeout=ASKING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return counting.result() if counting.done() and counting.exception() is None else None
    finally:
        stopped.cancel()
        let_go(counting)


class Images:
    """Whether a conversation shows any, told as it grows without looking at all of it each time."""

    def __init__(self) -> None:
        self._looked_at: tuple[Message, ...] = ()
        self._found = False

    def __call__(self, conversation: Conversation) -> bool:
        messages, done = conversation.messages, len(self._looked_at)
        if messages[:done] != self._looked_at:  # mostly the very same values, which are not looked into
            done, self._found = 0, False
        self._found = self._found or any(
            type(block) is Media or (type(block) is ToolResult and block.media)
            for message in messages[done:]
            for block in message.blocks
        )
        self._looked_at = messages
        return self._found

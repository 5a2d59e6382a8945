"""When a conversation is compacted, and by whom: before a request that would not fit, or when a model refuses it."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct, structs

from segue.chat.compaction.compact import (
    CompactionResult,
    Strategy,
    Summariser,
    budget_for,
    compact,
    needs_compaction,
)
from segue.conversation.blocks import Media, ToolResult
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.errors import ContextLengthError, SegueError
from segue.events import Compaction, Warned
from segue.exchange.attempt import Attempt
from segue.limits import COMPACT_AT, COMPACT_TO
from segue.providers.adapter import ChatRequest
from segue.providers.models.prices import Bill
from segue.providers.token_counts import (
    ASKING_SECONDS,
    WARNING_THRESHOLD,
    Estimator,
    TokenCounter,
    estimate_request,
    family_of,
)
from segue.routing.route import Route, provider_of
from segue.routing.router import Need
from segue.sessions.entries import Compacted, ModelReplied
from segue.tools.execution import abandon

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.chat.chat_session import ChatSession
    from segue.conversation.message import Conversation
    from segue.events import Emit
    from segue.providers.adapter import ProviderAdapter


MOST_SUMMARISERS = 3
"""How many models are asked for one summary."""


@final
class CompactionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How and when a conversation is made shorter."""

    strategy: Strategy = "summarise"
    share: float = COMPACT_AT
    """Of what the window leaves for input: a request that takes more is shortened first."""
    target: float = COMPACT_TO
    """The share that is left of it afterwards."""
    automatic: bool = True


class _Content(Struct):
    """How much a conversation holds; as it grows, only what is new is looked at."""

    messages: tuple[Message, ...] = ()
    size: float = 0.0
    """Bytes as JSON; infinite where they do not show what it costs: for media, and for values that are no JSON."""
    has_media: bool = False

    def look_at(self, messages: tuple[Message, ...]) -> None:
        done = len(self.messages)
        if messages[:done] != self.messages:  # mostly the very same values, which are not looked into
            done, self.size, self.has_media = 0, 0.0, False
        self.messages = messages
        for message in messages[done:]:
            self.has_media = self.has_media or any(
                type(block) is Media or (type(block) is ToolResult and block.media)
                for block in message.blocks
            )
            try:
                self.size += math.inf if self.has_media else len(msgspec.json.encode(message))
            except (TypeError, ValueError, RecursionError):
                self.size = math.inf


class Compactor:
    """Fits the conversation of one session into the windows of its models."""

    def __init__(self, session: ChatSession) -> None:
        self.summariser: Route | None = None
        """The route that replied last: it has read the conversation, so it can also sum it up."""
        self._session = session
        self._content = _Content()
        self._estimator = Estimator()
        self._counted: dict[str, tuple[int, int]] = {}
        """What the estimator was corrected by, as the state has it."""
        self.warned = False
        """Whether this turn was reported to come near the limit."""

    async def fit_request(self, route: Route, emit: Emit, abort: asyncio.Event) -> None:
        """The same before each further request of the turn: results have made it longer.

        Raises ContextLengthError where it is too long even so.
        """
        windows = (self._session.router.context_limit, self._session.facts(route).context)
        limit = min((window for window in windows if window is not None), default=None)
        need = await self.fit(route, limit, None, emit, abort)
        if limit is not None and (need.tokens or 0) > limit and not abort.is_set():
            raise ContextLengthError(
                f"Request exceeds token limit: {need.tokens} > {limit} for model {route.model}",
                hint="Use a model with a larger context window, or make the results of tools shorter.",
            )

    async def fit(
        self, route: Route, limit: int | None, message: Message | None, emit: Emit, abort: asyncio.Event
    ) -> Need:
        """What a turn needs that begins with this message, after compaction where it is too long."""
        settings = self._session.settings.compaction
        need = await self.need(route, limit, message, abort)
        if need.tokens is not None and limit is not None and settings.automatic:
            full = needs_compaction(need.tokens, limit, self._output(route), settings.share)
            if full and await self.compact(route, limit, "full", emit, abort):
                need = await self.need(route, limit, message, abort)
        near = need.tokens and limit and limit >= need.tokens >= limit * WARNING_THRESHOLD
        if near and not self.warned:
            self.warned = True
            emit(Warned(f"The conversation fills {need.tokens} of {limit} tokens.", "near_limit"))
        return need

    async def need(
        self, route: Route, limit: int | None, message: Message | None, abort: asyncio.Event
    ) -> Need:
        """What the turn asks of a model. A request far below every window is not counted; where an estimate comes near the
        limit, a provider that counts is asked."""
        session = self._session
        request = session.request(route)
        conversation = request.conversation
        self._content.look_at((*conversation.messages, *(() if message is None else (message,))))
        need = Need(images=self._content.has_media, tools=bool(session.tools.specs))
        share = session.settings.compaction.share
        smallest = limit if len(session.router.routes) == 1 else self._smallest_window(limit)
        # No tokenizer makes two tokens of a byte.
        size = self._content.size + len(conversation.system) + session.tools.size
        if smallest is None or 2 * size < smallest * share:
            return need
        self._correct(request)
        if message is not None:
            request = structs.replace(request, conversation=conversation.append(message))
        tokens = self._estimator.estimate(request)
        if limit is not None and tokens > limit * share:
            provider = provider_of(route, session.providers)
            if provider.capabilities.count_tokens is not None:
                tokens = await _count(provider, request, abort) or tokens
        return structs.replace(need, tokens=tokens)

    def _correct(self, request: ChatRequest) -> None:
        """By what the provider counted in its last request of this conversation. The journal has it, so that a chat which is
        opened anew, in another process, makes the same requests as one that goes on."""
        model, conversation = request.model, request.conversation
        counted = self._session.journal.state.counted.get(model)
        if counted == self._counted.get(model):
            return
        if counted is None:
            del self._counted[model]
            self._estimator.forget(model)
            return
        self._counted[model] = counted
        messages, tokens = counted
        earlier = structs.replace(conversation, messages=conversation.messages[:messages])
        self._estimator.correct(structs.replace(request, conversation=earlier), tokens)

    def _smallest_window(self, limit: int | None) -> int | None:
        """Of all members: a limit that was set for the router may be above what one of them takes."""
        windows = [limit]
        for route in self._session.router.routes:
            with suppress(SegueError):  # it cannot be used: no such provider, no key
                windows.append(self._session.facts(route).context)
        return min((window for window in windows if window is not None), default=None)

    async def shrink(
        self, route: Route, limit: int | None, why: str, emit: Emit, abort: asyncio.Event
    ) -> bool:
        """Whether it could be made shorter, after a router or a model refused it as too long.

        `limit`: what would fit; None where nobody knows it.
        """
        if not self._session.settings.compaction.automatic:
            return False
        if limit is None:
            # Whatever we counted, it was too much.
            tokens = self._counter(route.model)(self._session.journal.state.conversation)
            limit = min(tokens, self._session.facts(route).context or tokens)
        return await self.compact(route, limit, why, emit, abort) is not None

    async def compact(
        self,
        route: Route,
        limit: int | None,
        why: str,
        emit: Emit,
        abort: asyncio.Event,
        *,
        strategy: Strategy | None = None,
    ) -> Compaction | None:
        """Make the conversation shorter for a route; None if nothing can be dropped.

        `strategy`: this one and no other; where it is None, another may take the place of the usual one.
        """
        settings, journal, bill = self._session.settings.compaction, self._session.journal, Bill()
        conversation = journal.state.conversation
        count = self._counter(route.model)
        shorter: CompactionResult | None = None
        try:
            shorter = await compact(
                conversation,
                journal.state.ledger,
                strategy=strategy or settings.strategy,
                budget=budget_for(limit or count(conversation), share=settings.target),
                count=count,
                summarisers=self._summarisers(route, abort, bill),
                exactly=strategy is not None,
            )
        except SegueError:
            if not abort.is_set():
                raise
        finally:
            if (shorter is None or abort.is_set()) and bill.usage != Usage():
                await journal.append(ModelReplied(Message("model", ()), "cancelled", bill.usage, bill.cost))
        if shorter is None or abort.is_set():
            return None
        await journal.append(
            Compacted(
                conversation=shorter.conversation,
                strategy=shorter.strategy,
                tokens_before=shorter.tokens_before,
                tokens_after=shorter.tokens_after,
                usage=bill.usage,
                cost=bill.cost,
            )
        )
        event = Compaction(
            shorter.strategy,
            why,
            shorter.tokens_before,
            shorter.tokens_after,
            bill.usage,
            bill.cost,
            shorter.problem,
            bill.at_least,
        )
        emit(event)
        if shorter.problem:
            emit(Warned(shorter.problem, "compaction_fell_back"))
        return event

    def _summarisers(self, route: Route, abort: asyncio.Event, bill: Bill) -> list[Summariser]:
        """Who knows the conversation, then the route that it is made shorter for, then the other members."""
        known = self.summariser or self._last_origin()
        asked: dict[str, Summariser] = {}
        for one in (*((known,) if known is not None else ()), route, *self._session.router.routes):
            try:
                window = self._session.facts(one).context
            except SegueError:  # it cannot be used: no such provider, no key
                continue
            ask = partial(self._summary, one, abort, bill)
            asked.setdefault(one.name, Summariser(ask, window, one.name))
        return list(asked.values())[:MOST_SUMMARISERS]

    def _last_origin(self) -> Route | None:
        """Who replied last, where that was in another process."""
        messages = self._session.journal.state.conversation.messages
        origin = next((message.origin for message in reversed(messages) if message.origin is not None), None)
        if origin is None or self._session.providers.get(origin.provider) is None:
            return None
        return Route(provider=origin.provider, model=origin.model)

    def _output(self, route: Route) -> int | None:
        """Tokens that the reply may take: as set, else what the model can write at most."""
        session = self._session
        asked = route.options.max_tokens or session.journal.state.options.max_tokens
        card = provider_of(route, session.providers).card(route.model)
        return asked or (None if card is None else card.output)

    def _counter(self, model: str) -> Callable[[Conversation], int]:
        """Estimates the tokens of a request to a model; asks nobody."""
        family, tools = family_of(model), self._session.tools.specs

        def count(conversation: Conversation) -> int:
            return estimate_request(ChatRequest(model=model, conversation=conversation, tools=tools), family)

        return count

    async def _summary(
        self, route: Route, abort: asyncio.Event, bill: Bill, conversation: Conversation
    ) -> str:
        request = ChatRequest(model=route.model, conversation=conversation, options=route.options)
        attempt = Attempt(provider_of(route, self._session.providers), request, route=route.name)
        error = await attempt.run(lambda *_: None, abort)
        self._session.prices.charge(bill, attempt.usage, route.provider, route.model)
        if error is not None:
            raise error
        return attempt.reply.message.text


async def _count(provider: ProviderAdapter, request: ChatRequest, abort: asyncio.Event) -> int | None:
    """What the provider itself counts, where it does so soon and nobody cancels meanwhile."""
    counting = asyncio.ensure_future(TokenCounter(provider).estimate_tokens(request))
    stopped = asyncio.ensure_future(abort.wait())
    try:
        await asyncio.wait({counting, stopped}, timeout=ASKING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return counting.result() if counting.done() and counting.exception() is None else None
    finally:
        stopped.cancel()
        abandon(counting)

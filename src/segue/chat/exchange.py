"""One exchange of a turn: a request and its reply, tried again or elsewhere while nothing was shown.

Each attempt is rendered anew by the provider that it goes to. What came of a reply that broke off is kept.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, final

from msgspec import Struct, field, structs

from segue.chat.attempt import Attempt
from segue.chat.react import MAX_CORRECTIONS, correction
from segue.conversation.blocks import Reasoning, Text, ToolCall
from segue.conversation.message import Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import Usage
from segue.dialects.errors import TOOLS_UNSUPPORTED
from segue.errors import SegueError
from segue.events import Repaired, Retrying, Switch, Warned
from segue.providers.adapter import ChatRequest, Previews, Providers
from segue.providers.models.prices import cost_of
from segue.providers.token_estimates import Estimator
from segue.routing.member_facts import facts_from, provider_of
from segue.routing.router import GiveUp, GoTo, Retry
from segue.sessions.entries import ModelReplied, NoteAdded, Switched
from segue.transcript.policy import Policy
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from segue.chat.react import Parsed
    from segue.conversation.events import Reply
    from segue.events import Emit
    from segue.providers.adapter import Sent
    from segue.providers.models.prices import Bill
    from segue.routing.route import Route
    from segue.routing.router import Routing
    from segue.sessions.journal import Journal, State


@final
class Terms(Struct, kw_only=True):
    """What all requests of a session have in common."""

    providers: Providers
    session: str = ""
    tools: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    policy: Policy = Policy()
    told: set[Repair] = field(default_factory=set)
    """Repairs that somebody heard of already."""
    without_tools: set[str] = field(default_factory=set)
    """Routes to models that know no tools: theirs are put into words."""

    passed_over: dict[str, str] = field(default_factory=dict)
    """Members of the router that the last turn could not go to, each with the code of the reason."""
    estimator: Estimator = field(default_factory=Estimator)

    def knows_tools(self, route: Route) -> bool:
        return route.name not in self.without_tools and facts_from(self.providers)(route).tools

    def request(self, state: State, route: Route) -> ChatRequest:
        """What a route would be asked now."""
        return ChatRequest(
            model=route.model,
            conversation=state.conversation,
            ledger=state.ledger,
            tools=self.tools,
            options=route.with_defaults(self.options).options,
            policy=self.policy,
        )

    def losses(self, state: State, route: Route) -> tuple[Repair, ...]:
        """What a model cannot be told, found by making the request that it would get."""
        provider = provider_of(route, self.providers)
        if not isinstance(provider, Previews) or not state.conversation.messages:
            return ()
        try:
            repairs = provider.preview(self.request(state, route)).repairs
        except SegueError:  # asking will tell it, and have its own remedy
            return ()
        return tuple(repair for repair in repairs if repair.lossy)


class Shrink(Protocol):
    """Makes the conversation shorter, if that can be done."""

    async def __call__(self, route: Route, *, why: str) -> bool: ...


class Exchanges:
    """All exchanges of one turn."""

    def __init__(
        self,
        journal: Journal,
        routing: Routing,
        terms: Terms,
        *,
        emit: Emit,
        abort: asyncio.Event,
        shrink: Shrink,
        bill: Bill,
    ) -> None:
        self.error: SegueError | None = None
        self.ran = False
        """Whether a call of this turn has run: from then on it stays where it is."""
        self.latest = ModelReplied(Message("model", ()))
        self._journal = journal
        self._routing = routing
        self._terms = terms
        self._emit = emit
        self._abort = abort
        self._shrink = shrink
        self._bill = bill
        self._shrunk = False
        self._corrections = 0

    @property
    def route(self) -> Route:
        return self._routing.route

    def begin(self, previous: str) -> None:
        """Tell who answers, where a router chose another than before, and who could not."""
        self._tell_skipped()
        if previous and previous != self.route.name:
            losses = self._terms.losses(self._journal.state, self.route)
            self._emit(Switch(previous, self.route.name, "routed", losses))

    async def ask(self) -> Reply:
        """A reply, whole or cut off, as it now stands in the conversation."""
        while True:
            attempt, route = Attempt(self._emit, self._abort, self._tell_repairs), self.route
            reply = await self._attempt(attempt)
            if reply.error is not None and await self._try_again(reply.error, shown=attempt.shown):
                await self._count_lost(reply, route)
                continue
            kept = await self._keep(reply, attempt)
            if reply.finish != "stop" or attempt.misread is None or not await self._correct(attempt.misread):
                return kept

    async def _attempt(self, attempt: Attempt) -> Reply:
        route, terms = self.route, self._terms
        request = structs.replace(terms.request(self._journal.state, route), session=terms.session)
        terms.estimator.estimate(request)
        react = bool(terms.tools) and not terms.knows_tools(route)
        return await attempt.run(provider_of(route, terms.providers), request, react=react)

    async def _correct(self, misread: Parsed) -> bool:
        """Ask a model that has to write its calls down to do it properly; not for ever."""
        if self._corrections >= MAX_CORRECTIONS:
            return False
        self._corrections += 1
        # An instruction: compaction must not take it for the user's prompt.
        note = Message("user", (Text(correction(misread)),), instruction=True)
        await self._journal.append(NoteAdded(note))
        return True

    async def _try_again(self, error: SegueError, *, shown: bool) -> bool:
        route = self.route
        # The provider may have learned it with this very request, so what it knows now says nothing.
        told = self._terms.without_tools
        if not shown and error.code == TOOLS_UNSUPPORTED and route.name not in told:
            told.add(route.name)
            return True
        if not shown and error.remedy == "shrink" and not self._shrunk:
            self._shrunk = True
            if await self._shrink(route, why=error.code):
                return True
        step = self._routing.failed(error, shown=shown, ran=self.ran)
        if type(step) is Retry and not shown:
            self._emit(Retrying(route.name, error, step.after))
            return await self._pause(step.after)
        if type(step) is GoTo and not shown and not self.ran:
            await self._journal.append(
                Switched(previous=route.name, model=step.route.name, reason="failover")
            )
            losses = self._terms.losses(self._journal.state, step.route)
            self._emit(Switch(route.name, step.route.name, "failover", losses, error))
            self._tell_skipped()
            return True
        self.error = step.error if type(step) is GiveUp else error
        return False

    async def _count_lost(self, reply: Reply, route: Route) -> None:
        """A reply that nobody saw may have cost something."""
        if reply.usage != Usage():
            cost = cost_of(reply.usage, route.provider, route.model)
            await self._journal.append(ModelReplied(Message("model", ()), reply.finish, reply.usage, cost))
            self._bill.add(reply.usage, cost)

    async def _pause(self, seconds: float) -> bool:
        """Wait, unless the turn is cancelled; asking again will find that out."""
        if seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._abort.wait(), seconds)
        return True

    async def _keep(self, reply: Reply, attempt: Attempt) -> Reply:
        message = reply.message if reply.finish in ("stop", "tool_calls") else _without_halves(reply.message)
        # Minted here, so that the journal tells the ids that the conversation will have.
        message = self._journal.state.conversation.append(message).messages[-1]
        cost = cost_of(reply.usage, self.route.provider, self.route.model)
        self.latest = ModelReplied(
            message,
            reply.finish,
            reply.usage,
            cost,
            0 if attempt.sent is None else len(attempt.sent.repairs),
        )
        if message.blocks or reply.usage != Usage():
            await self._journal.append(self.latest)
        self._bill.add(reply.usage, cost)
        if reply.usage.input_tokens:
            self._terms.estimator.correct(self.route.model, reply.usage.input_tokens)
        if reply.finish == "cancelled":
            self._routing.aborted()
        elif reply.error is None:
            self._routing.answered(reply.usage, attempt.first_token, seconds=attempt.seconds, cost=cost)
            if all(type(block) is Reasoning for block in message.blocks):
                self._emit(Warned("The model said nothing.", "empty_reply"))
        return structs.replace(reply, message=message, error=self.error)

    def _tell_skipped(self) -> None:
        """Each member once, until it can be asked again."""
        skipped, known = self._routing.skipped, self._terms.passed_over
        for member in skipped:
            if known.get(member.name) != member.code:
                self._emit(Warned(f"{member.name} is passed over: {member.reason}", "passed_over"))
        self._terms.passed_over = {member.name: member.code for member in skipped}

    def _tell_repairs(self, sent: Sent) -> None:
        new = tuple(repair for repair in sent.repairs if repair not in self._terms.told)
        if new:
            self._terms.told.update(new)
            self._emit(Repaired(new, self.route.name))


def _without_halves(message: Message) -> Message:
    """A reply that broke off, without calls whose arguments did: they are no wishes yet."""
    whole = tuple(
        block for block in message.blocks if type(block) is not ToolCall or block.arguments is not None
    )
    return structs.replace(message, blocks=whole)

"""The exchanges of a chat's turn: asked from its journal, shown as events, and kept in the journal.

Each attempt is rendered anew by the provider that it goes to. What came of a reply that broke off is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from msgspec import structs

from segue.chat.output_type import ANSWER_CORRECTED, OutputMismatch, correction_of
from segue.chat.roles import checked_output
from segue.conversation.blocks import Reasoning, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Finished,
    MediaArrived,
    ReasoningDelta,
    TextDelta,
)
from segue.conversation.message import Message, mint_missing
from segue.conversation.usage import NO_USAGE
from segue.errors import InvalidRequestError, SegueError, is_transient, retry_after_of
from segue.events import (
    Citations,
    MediaChunk,
    PartialOutput,
    ReasoningChunk,
    Repaired,
    Retrying,
    Switch,
    TextChunk,
    ToolCallChunk,
    Warned,
)
from segue.exchange.attempt import Attempt
from segue.exchange.exchange import Asker, Exchange
from segue.routing.route import provider_of
from segue.routing.router import GoTo, Retry
from segue.sessions.entries import ModelReplied, NoteAdded, Switched
from segue.telemetry.switch import UNSEEN, observer
from segue.text.partial_json import NOTHING
from segue.transcript.blocks.citations import is_listed

if TYPE_CHECKING:
    import asyncio

    from segue.chat.chat_session import ChatSession
    from segue.chat.output_type import PartialOutputReader
    from segue.conversation.blocks import Citation
    from segue.conversation.events import Event
    from segue.events import Emit
    from segue.providers.adapter import RequestSent
    from segue.providers.models.prices import Bill
    from segue.routing.route import Route
    from segue.routing.router import Routing


_REFUSED = (400, 422)
"""Statuses of a request that is wrong in itself."""


@final
class TurnExchanges(Asker):
    """All exchanges of one turn."""

    def __init__(
        self,
        session: ChatSession,
        routing: Routing,
        *,
        emit: Emit,
        abort: asyncio.Event,
        bill: Bill,
        checked: bool,
    ) -> None:
        """`checked`: whether the next request is known to fit. The first one was measured before the turn was routed."""
        self.exchange = Exchange(self, routing, abort=abort)
        self.error: SegueError | None = None
        self.latest = ModelReplied(Message("model", ()))
        self._session = session
        self._emit = emit
        self._abort = abort
        self._bill = bill
        self._checked = checked
        self._attempt: Attempt | None = None
        self._called: dict[int, str] = {}
        """The names of the calls so far, of the reply that arrives."""
        self._cited: list[Citation] = []
        """Its sources so far."""
        self._partial: PartialOutputReader | None = None
        """Reads the answer while it is written, where somebody listens for its value."""
        self._torn = False
        """Whether the last reply was shown in part, or has calls that were closed."""
        self._shrunk = False
        self.output: Any = None
        """The last answer as a value of the type that it must have."""
        self.mismatch: OutputMismatch | None = None
        """Why it does not have that type, or was not accepted."""
        self._seen = UNSEEN
        """The exchange as telemetry sees it."""
        self._corrections = 0
        """How often the model was asked to correct its answer."""

    @property
    def route(self) -> Route:
        """Who answers."""
        return self.exchange.routing.route

    @property
    def shown(self) -> bool:
        return self._attempt is not None and self._attempt.first_content is not None

    def report_route(self, previous: str, cause: SegueError | None = None) -> None:
        """Report who answers, where the router chose another member than before, and who could not.

        `cause`: the error of the turn that this one continues.
        """
        self._report_skipped()
        model, members = self.route.name, self._session.router.routes
        if previous != model and any(member.name == previous for member in members):
            reason = "routed" if cause is None else "failover"
            losses = self._session.losses(self.route)
            self._emit(Switch(previous, model, reason, losses, cause))

    def continuation(self) -> Routing | None:
        """Where a turn that has failed can be continued: elsewhere, and only if its last reply left nothing behind."""
        return None if self._torn or self._abort.is_set() else self.exchange.routing.continuation()

    def limited_for(self) -> float | None:
        """Seconds until the last request, which failed and left nothing behind, can be made again; None if nobody said so."""
        if self.error is None or self._torn or not is_transient(self.error):
            return None
        return retry_after_of(self.error)

    async def ask(self) -> ModelReplied:
        """A reply, complete or cut off, as it now stands in the conversation."""
        self._shrunk = False
        while True:
            attempt = await self._observed_ask()
            if attempt is None:
                raise self.error or SegueError("The request was not made.")
            kept = await self._keep(attempt)
            if kept.finish not in ("stop", "tool_calls") or kept.message.calls:
                return kept
            if not await self._correct_output(kept.message):
                return kept

    async def _observed_ask(self) -> Attempt | None:
        session = self._session
        with observer().exchange(asked=self.route.model, session=session.journal.session) as self._seen:
            attempt, self.error = await self.exchange.ask()
            if attempt is not None:
                self._seen.exchange_ended(
                    route=self.route.name,
                    usage=attempt.usage,
                    finish=attempt.reply.finish,
                    messages=attempt.request.conversation.messages,
                    answer=attempt.reply.message,
                    error=self.error,
                )
        return attempt

    # What the engine asks of whoever asks

    async def attempt(self, route: Route) -> Attempt:
        session, self._attempt = self._session, None
        if not self._checked:
            await session.compactor.fit_request(route, self._emit, self._abort)
        self._checked = False
        request = structs.replace(session.request(route), session=session.journal.session)
        self._attempt = attempt = Attempt(provider_of(route, session.providers), request, route=route.name)
        attempt.on_sent = self._report_repairs
        self._called, self._cited = {}, []
        output = session.turn.output
        self._partial = output.partial() if session.turn.partial and output is not None else None
        return attempt

    def take(self, attempt: Attempt, events: list[Event], data: bytes) -> None:
        del data
        chunk: TextChunk | ReasoningChunk | MediaChunk | ToolCallChunk
        for event in events:
            if type(event) is TextDelta and event.text:
                chunk = TextChunk(event.text)
            elif type(event) is ReasoningDelta and event.text:
                chunk = ReasoningChunk(event.text)
            elif type(event) is MediaArrived:
                chunk = MediaChunk(event.media)
            elif type(event) is CallStarted:
                self._called[event.index] = event.name or self._called.get(event.index, "")
                chunk = ToolCallChunk(event.index, self._called[event.index])
            elif type(event) is ArgumentsDelta and event.text:
                chunk = ToolCallChunk(event.index, self._called.get(event.index, ""), event.text)
            else:
                if type(event) is Cited:
                    self._cited.append(event.citation)
                elif type(event) is Finished and any(map(is_listed, self._cited)):
                    self._emit(Citations(tuple(self._cited)))
                continue
            # A call that is being written is no output yet: the reply may still be asked for again.
            if attempt.first_content is None and type(chunk) is not ToolCallChunk:
                attempt.first_content = attempt.passed
            self._emit(chunk)
            if type(chunk) is TextChunk and self._partial is not None:
                value = self._partial.feed(chunk.text)
                if value is not NOTHING:
                    self._emit(PartialOutput(value))

    def ended(self, route: Route, attempt: Attempt | None, error: SegueError | None) -> None:
        if attempt is None:
            return
        self._seen.attempt_ended(route.name, attempt.seconds, error)
        attempt.cost = self._session.prices.charge(self._bill, attempt.usage, route.provider, route.model)
        if isinstance(error, InvalidRequestError) and error.status in _REFUSED:
            self._advise(error, attempt)

    async def again(
        self, route: Route, attempt: Attempt | None, error: SegueError, step: Retry | GoTo | None
    ) -> None:
        append = self._session.journal.append
        if attempt is not None and (usage := attempt.usage) != NO_USAGE:
            await append(ModelReplied(Message("model", ()), attempt.reply.finish, usage, attempt.cost))
        if type(step) is Retry:
            self._emit(Retrying(route.name, error, step.after))
        elif type(step) is GoTo:
            entered = step.route
            await append(Switched(previous=route.name, model=entered.name, reason="failover"))
            losses = self._session.losses(entered)
            self._emit(Switch(route.name, entered.name, "failover", losses, error))
            self._report_skipped()

    def waits(self, route: Route, seconds: float) -> None:
        self._emit(
            Warned(f"The rate limit of {route.name} is used up: it is asked in {seconds:.0f} s.", "limited")
        )

    async def simplify(self, route: Route, attempt: Attempt, error: SegueError) -> bool:
        del route, attempt, error
        return self._session.leave_given_seals()

    async def correct(self, attempt: Attempt, note: str) -> None:
        await self._keep(attempt)
        await self._add_note(note)

    async def shrink(self, route: Route, error: SegueError) -> bool:
        if self._shrunk:
            return False
        self._shrunk = True
        compactor = self._session.compactor
        return await compactor.shrink(route, None, error.code, self._emit, self._abort)

    # What is kept

    async def _keep(self, attempt: Attempt) -> ModelReplied:
        journal, reply, usage = self._session.journal, attempt.reply, attempt.usage
        message = reply.message if reply.finish in ("stop", "tool_calls") else _without_halves(reply.message)
        # Minted here, so that the journal has the ids that the conversation will have.
        message, _ = mint_missing(message, journal.state.conversation.minted)
        repairs = 0 if attempt.sent is None else len(attempt.sent.repairs)
        self.latest = ModelReplied(message, reply.finish, usage, attempt.cost, repairs)
        self._torn = self.shown or bool(message.blocks)
        if message.blocks or usage != NO_USAGE:
            await journal.append(self.latest)
        ended_well = reply.error is None and reply.finish != "cancelled"
        if ended_well and all(type(block) is Reasoning for block in message.blocks):
            self._emit(Warned("The reply is empty.", "empty_reply"))
        return self.latest

    async def _correct_output(self, message: Message) -> bool:
        """Ask again for an answer that does not have the type that it must have, or that its check does not accept."""
        session, self.mismatch = self._session, None
        turn = session.turn
        if turn.output is None and turn.check is None:
            return False
        try:
            context = session.context(self._abort)
            self.output = await checked_output(turn.output, turn.check, message.text, context)
        except OutputMismatch as mismatch:
            self.mismatch = mismatch
            if self._corrections >= turn.budget.max_corrections:
                return False
            self._corrections += 1
            self._emit(Warned(f"The answer {mismatch}. It is asked for once more.", ANSWER_CORRECTED))
            await self._add_note(correction_of(turn.output, mismatch))
            return True
        return False

    async def _add_note(self, text: str) -> None:
        # An instruction: compaction must not take it for the user's prompt.
        note = Message("user", (Text(text),), instruction=True)
        await self._session.journal.append(NoteAdded(note))

    # What is reported

    def _advise(self, error: InvalidRequestError, attempt: Attempt) -> None:
        """A refusal of the request itself: how to find what is wrong with it, where that is not known already."""
        sent = attempt.sent
        if error.hint or sent is None or not sent.body:  # a provider of one's own, without a wire
            return
        session, dialect = self._session.journal.session, sent.origin.dialect
        error.hint = f"Find the cause: segue sessions export {session} | segue doctor - --for {dialect}"

    def _report_skipped(self) -> None:
        """Each member once, until it can be asked again."""
        skipped, known = self.exchange.routing.skipped, self._session.skipped
        for member in skipped:
            if known.get(member.name) != member.code:
                self._emit(Warned(f"{member.name} is skipped: {member.reason}", "passed_over"))
        self._session.skipped = {member.name: member.code for member in skipped}

    def _report_repairs(self, sent: RequestSent) -> None:
        reported = self._session.reported
        new = tuple(repair for repair in sent.repairs if repair not in reported)
        if new:
            reported.update(new)
            self._emit(Repaired(new, self.route.name))


def _without_halves(message: Message) -> Message:
    """A reply that broke off, without calls whose arguments did: they are not calls yet."""
    complete = tuple(
        block for block in message.blocks if type(block) is not ToolCall or block.arguments is not None
    )
    return structs.replace(message, blocks=complete)

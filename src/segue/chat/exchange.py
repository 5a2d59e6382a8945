"""One exchange of a turn: a request and its reply, tried again or elsewhere while nothing was shown.

Each attempt is rendered anew by the provider that it goes to. What came of a reply that broke off is kept.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from segue.chat.attempt import Attempt
from segue.chat.lifecycle import ChatSession
from segue.chat.output_type import ANSWER_CORRECTED, OutputMismatch, correction_of
from segue.conversation.blocks import Reasoning, Text, ToolCall
from segue.conversation.message import Message, mint_missing
from segue.conversation.usage import Usage
from segue.dialects.errors import TOOLS_UNSUPPORTED
from segue.errors import ContextLengthError, InvalidRequestError, SegueError
from segue.events import Emit, Repaired, Retrying, Switch, Warned
from segue.providers.models.prices import Bill
from segue.routing.route import provider_of
from segue.routing.router import GiveUp, GoTo, Retry, Routing
from segue.sessions.entries import ModelReplied, NoteAdded, Switched
from segue.transcript.text_tools.react import MAX_CORRECTIONS, correction

if TYPE_CHECKING:
    from segue.chat.output_type import OutputType
    from segue.conversation.events import Reply
    from segue.providers.adapter import ChatRequest
    from segue.routing.route import Route
    from segue.transcript.repairs import Repair
    from segue.transcript.text_tools.form import ParsedReply


_REFUSED = (400, 422)
"""Statuses of a request that is wrong in itself."""


class Exchanges(Struct, kw_only=True):
    """All exchanges of one turn."""

    session: ChatSession
    routing: Routing
    emit: Emit
    abort: asyncio.Event
    bill: Bill
    checked: bool
    """Whether the next request is known to fit: the first one was measured before the turn was routed."""
    error: SegueError | None = None
    ran: bool = False
    """Whether a call of this turn has run: from then on it stays where it is."""
    latest: ModelReplied = ModelReplied(Message("model", ()))
    _torn: bool = False
    """Whether the last reply was shown in part, or has calls that were closed."""
    _shrunk: bool = False
    _corrections: int = 0
    _answered_wrong: bool = False
    """Whether it was asked to correct an answer that does not have the type."""

    @property
    def model(self) -> str:
        """Who answers: provider/model."""
        return self.routing.route.name

    def report_route(self, previous: str, cause: SegueError | None = None) -> None:
        """Report who answers, where the router chose another member than before, and who could not.

        `cause`: the error of the turn that this one continues.
        """
        self._report_skipped()
        model, members = self.model, self.session.router.routes
        if previous != model and any(member.name == previous for member in members):
            reason = "routed" if cause is None else "failover"
            losses = self.session.losses(self.routing.route)
            self.emit(Switch(previous, model, reason, losses, cause))

    async def ask(self) -> Reply:
        """A reply, complete or cut off, as it now stands in the conversation."""
        session = self.session
        self._shrunk = False
        while True:
            route = self.routing.route
            if not self.checked:
                try:
                    await session.compactor.fit_request(route, self.emit, self.abort)
                except ContextLengthError as error:
                    if await self._try_again(error, None, shown=False):
                        continue
                    raise (self.error or error) from error
            self.checked = False
            request = structs.replace(session.request(route), session=session.journal.session)
            attempt = Attempt(self.emit, self.abort, self._report_repairs)
            reply = await attempt.run(provider_of(route, session.providers), request)
            shown = attempt.first_token is not None
            if isinstance(reply.error, InvalidRequestError) and reply.error.status in _REFUSED:
                self._advise(reply.error, attempt)
            if reply.error is not None and await self._try_again(reply.error, request, shown=shown):
                await self._count_lost(reply, route)
                continue
            kept = await self._keep(reply, attempt, request)
            self._torn = shown or bool(kept.message.blocks)
            if reply.finish != "stop":
                return kept
            if attempt.misread is not None and await self._correct(attempt.misread):
                continue
            if session.turn.output is None or self._answered_wrong or kept.message.calls:
                return kept
            if not await self._correct_output(session.turn.output, kept.message):
                return kept

    def _advise(self, error: InvalidRequestError, attempt: Attempt) -> None:
        """A refusal of the request itself: how to find what is wrong with it, where that is not known already."""
        if (
            error.hint or attempt.sent is None or not attempt.sent.body
        ):  # a provider of one's own, without a wire
            return
        session, dialect = self.session.journal.session, attempt.sent.origin.dialect
        error.hint = f"Find the cause: segue sessions export {session} | segue doctor - --for {dialect}"

    def continuation(self) -> Routing | None:
        """Where a turn that has failed can be continued: elsewhere, and only if its last reply left nothing behind."""
        return None if self._torn or self.abort.is_set() else self.routing.continuation()

    async def _correct_output(self, output: OutputType, message: Message) -> bool:
        """Ask once more for an answer that does not have the type that it must have."""
        try:
            output.read(message.text)
        except OutputMismatch as mismatch:
            self._answered_wrong = True
            self.emit(Warned(f"The answer {mismatch}. It is asked for once more.", ANSWER_CORRECTED))
            await self._add_note(correction_of(output, mismatch))
            return True
        return False

    async def _add_note(self, text: str) -> None:
        # An instruction: compaction must not take it for the user's prompt.
        note = Message("user", (Text(text),), instruction=True)
        await self.session.journal.append(NoteAdded(note))

    async def _correct(self, misread: ParsedReply) -> bool:
        """Ask a model that writes its calls as text to use the right format; not for ever."""
        if self._corrections >= MAX_CORRECTIONS:
            return False
        self._corrections += 1
        await self._add_note(correction(misread))
        return True

    async def _try_again(self, error: SegueError, request: ChatRequest | None, *, shown: bool) -> bool:
        session, route = self.session, self.routing.route
        # The provider may have learned it with this very request, so what it knows now does not count.
        if not shown and error.code == TOOLS_UNSUPPORTED and request is not None and request.tools:
            provider_of(route, session.providers).learn_lack(route.model, "tools")
            return True
        if not shown and error.remedy == "shrink" and not self._shrunk:
            self._shrunk = True
            if await session.compactor.shrink(route, None, error.code, self.emit, self.abort):
                return True
        step = self.routing.failed(error, shown=shown, ran=self.ran)
        if type(step) is Retry and not shown:
            self.emit(Retrying(route.name, error, step.after))
            if step.after > 0:
                with suppress(TimeoutError):
                    # A cancelled turn asks once more, and finds that it is cancelled.
                    await asyncio.wait_for(self.abort.wait(), step.after)
            return True
        if type(step) is GoTo and not shown and not self.ran:
            name = step.route.name
            await session.journal.append(Switched(previous=route.name, model=name, reason="failover"))
            self.emit(Switch(route.name, name, "failover", session.losses(step.route), error))
            self._report_skipped()
            return True
        self.error = step.error if type(step) is GiveUp else error
        return False

    async def _count_lost(self, reply: Reply, route: Route) -> None:
        """A reply that nobody saw may have cost something."""
        if reply.usage != Usage():
            cost = self.session.prices.charge(self.bill, reply.usage, route.provider, route.model)
            lost = ModelReplied(Message("model", ()), reply.finish, reply.usage, cost)
            await self.session.journal.append(lost)

    async def _keep(self, reply: Reply, attempt: Attempt, request: ChatRequest) -> Reply:
        journal, route, usage = self.session.journal, self.routing.route, reply.usage
        message = reply.message if reply.finish in ("stop", "tool_calls") else _without_halves(reply.message)
        # Minted here, so that the journal has the ids that the conversation will have.
        message, _ = mint_missing(message, journal.state.conversation.minted)
        cost = self.session.prices.charge(self.bill, usage, route.provider, route.model)
        repairs = 0 if attempt.sent is None else len(attempt.sent.repairs)
        self.latest = ModelReplied(message, reply.finish, usage, cost, repairs)
        if message.blocks or usage != Usage():
            await journal.append(self.latest)
        if usage.input_tokens:
            self.session.compactor.reported[request.model] = request, usage.input_tokens
        if reply.finish == "cancelled":
            self.routing.aborted()
        elif reply.error is None:
            self.routing.answered(usage, attempt.first_token, seconds=attempt.seconds, cost=cost)
            if all(type(block) is Reasoning for block in message.blocks):
                self.emit(Warned("The reply is empty.", "empty_reply"))
        return structs.replace(reply, message=message, error=self.error)

    def _report_skipped(self) -> None:
        """Each member once, until it can be asked again."""
        skipped, known = self.routing.skipped, self.session.skipped
        for member in skipped:
            if known.get(member.name) != member.code:
                self.emit(Warned(f"{member.name} is skipped: {member.reason}", "passed_over"))
        self.session.skipped = {member.name: member.code for member in skipped}

    def _report_repairs(self, repairs: tuple[Repair, ...]) -> None:
        new = tuple(repair for repair in repairs if repair not in self.session.reported)
        if new:
            self.session.reported.update(new)
            self.emit(Repaired(new, self.model))


def _without_halves(message: Message) -> Message:
    """A reply that broke off, without calls whose arguments did: they are not calls yet."""
    complete = tuple(
        block for block in message.blocks if type(block) is not ToolCall or block.arguments is not None
    )
    return structs.replace(message, blocks=complete)

"""The turn: from a user's message to a reply without calls. It asks the model and runs its calls until there are none."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, final

from msgspec import Struct, field

from segue.chat.budget import OVER_BUDGET
from segue.chat.exchange import TurnExchanges
from segue.chat.lifecycle import ChatSession
from segue.chat.output_type import second_request
from segue.conversation.blocks import Text, ToolResult
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.errors import ProtocolError, SegueError
from segue.events import Compaction, Emit, Error, Switch, ToolCallResult, TurnComplete, Warned
from segue.exchange.attempt import unexpected
from segue.providers.models.prices import Bill
from segue.sessions.entries import (
    Entry,
    NoteAdded,
    Switched,
    TurnEnded,
    TurnFinish,
    TurnResumed,
    UserSaid,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import TypeVar

    from segue.conversation.blocks import Reason
    from segue.conversation.events import FinishReason
    from segue.events import ChatEvent
    from segue.routing.router import Routing
    from segue.sessions.state import State

    OutputT_co = TypeVar("OutputT_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    OutputT_co = TypeVar("OutputT_co", covariant=True)

HANDED_OVER = "handed_over"
"""Why another model answers, where an agent gave the conversation to another."""
_CONTINUE = "Your reply was cut off here. Go on where it stopped; repeat nothing."
_ENDS: Mapping[FinishReason, TurnFinish] = {
    "stop": "complete",
    "tool_calls": "complete",
    "length": "length",
    "content_filter": "content_filter",
    "cancelled": "cancelled",
    "error": "error",
}
_CUT: Mapping[FinishReason, Reason] = {
    "length": "provider_error",
    "content_filter": "provider_error",
    "error": "provider_error",
    "cancelled": "cancelled_by_user",
}
"""Replies that broke off. Their last call may be half of what was meant, so none of them runs."""


@final
class Answer(Struct, Generic[OutputT_co], frozen=True, kw_only=True):
    """What came of a turn. A turn that failed has an `error`, and as `text` what came before it."""

    text: str = ""
    output: OutputT_co = None  # type: ignore[assignment]  # without a type it is None
    """The answer as a value of the type that was asked for."""
    message: Message | None = None
    """The last reply."""
    finish: TurnFinish = "complete"
    usage: Usage = Usage()
    """Of the whole turn: its exchanges, summaries and subagents."""
    cost: float | None = None
    """Dollars, where prices are known."""
    at_least: float = 0.0
    """The same with what is known of parts without a whole price, and estimates where nobody counted: what budgets hold against."""
    model: str = ""
    exchanges: int = 0
    error: SegueError | None = None

    def __str__(self) -> str:
        return self.text

    def or_raise(self) -> Answer[OutputT_co]:
        """The answer itself, or its error as an exception, which has this answer."""
        if self.error is not None:
            self.error.answer = self
            raise self.error
        return self

    def with_output(self) -> Answer[OutputT_co]:
        """The same where an answer of a type was asked for: a turn that ended without one raises too."""
        if self.error is None and self.finish != "complete":
            error = ProtocolError(
                f"The turn ended without the answer that was asked for: {self.finish}.",
                code="no_output",
                hint="Its text so far is in error.answer.",
            )
            error.answer = self
            raise error
        return self.or_raise()


def can_resume(state: State) -> bool:
    """Whether the last turn ended before its answer was complete."""
    messages = state.conversation.messages
    complete = not state.in_turn and state.finish in (None, "complete")
    return bool(messages) and (messages[-1].speaker != "model" or not complete)


class Turn(Struct):
    """A turn that runs in a task of its own, so that whoever waits for it may be cancelled without tearing it.

    Interactive, one-shot and subagent chats differ only in who receives the events.
    """

    _session: ChatSession
    _listener: Emit
    abort: asyncio.Event = field(default_factory=asyncio.Event)
    answer: Answer = Answer(finish="cancelled")
    abandoned: bool = False
    """Nobody waits for it any more: it is about to be cancelled, if it is not yet."""
    task: asyncio.Task[None] | None = None
    """Its own, from which it is run."""
    _bill: Bill = field(default_factory=Bill)
    _exchanges: TurnExchanges | None = None
    _number: int = 0
    _output: Any = None
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    # Its task

    @property
    def ending(self) -> bool:
        return self.abandoned or self.abort.is_set()

    async def wait(self) -> None:
        """Until it is over. Whoever is cancelled meanwhile cancels the turn, and sees it end."""
        try:
            if self.task is not None:
                await asyncio.shield(self.task)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Cancel what is not over yet, and wait for its end."""
        self.abort.set()
        if self.task is not None and not self.task.done():
            await asyncio.wait({self.task})

    def abandon(self) -> None:
        """Cancel it from wherever its listener is thrown away, which may be any thread."""
        self.abandoned = True
        with suppress(RuntimeError):  # the loop is gone, and the turn with it
            self._loop.call_soon_threadsafe(self.abort.set)

    # What it does

    async def run(self, message: Message | None) -> None:
        """Everything up to `answer`, whatever happens; all events but `Finish`. None: resume the last turn.

        A turn that fails where another member of its router may succeed is continued there, as a turn of its own.
        """
        finish, error = await self._run_one(message)
        while error is not None and (routing := self._continuation()) is not None:
            finish, error = await self._run_one(None, routing, error)
        if error is not None:
            self.emit(Error(error))
        self.answer = self._answer(finish, error)

    async def _run_one(
        self, message: Message | None, routing: Routing | None = None, cause: SegueError | None = None
    ) -> tuple[TurnFinish, SegueError | None]:
        finish: TurnFinish = "error"
        error: SegueError | None = None
        try:
            finish = await self._take(message, routing, cause)
            error = None if self._exchanges is None else self._exchanges.error
            if error is None and finish == "complete":
                self._output = self._read_output()
        except SegueError as caught:
            finish, error = "error", caught
        except Exception as caught:  # whatever happens in a turn, the chat stays usable
            error = unexpected(caught)
        return await self._end(finish, error)

    def _read_output(self) -> Any:
        """The answer as a value of the type that it must have. Raises ProtocolError `bad_answer`."""
        if self._exchanges is None:
            return None
        mismatch = self._exchanges.mismatch
        if mismatch is not None:
            raise ProtocolError(
                f"The answer {mismatch}.",
                code="bad_answer",
                hint="Ask again, or use a model that supports structured output.",
            ) from mismatch
        return self._exchanges.output

    def _continuation(self) -> Routing | None:
        if not self._session.settings.continue_turns or self._exchanges is None:
            return None
        routing = self._exchanges.continuation()
        if routing is not None:
            self._number = max(0, self._number - 1)  # the exchange that failed is made again
        return routing

    def emit(self, event: ChatEvent) -> None:
        # What tools and summaries cost is part of the turn's price.
        if type(event) is ToolCallResult or type(event) is Compaction:
            self._bill.add(event.usage, event.cost, event.at_least)
        self._listener(event)

    async def _take(
        self, message: Message | None, routing: Routing | None, cause: SegueError | None
    ) -> TurnFinish:
        """`routing` and `cause`: where to continue a turn that has failed, and why it has."""
        session = self._session
        journal = session.journal
        if journal.state.in_turn:
            await journal.close_turn()
        continued = routing is not None
        try:
            routing = routing or await self._open_routing(message)
        except SegueError:
            if not self.abort.is_set():
                raise
            # What was not found out in time is nobody's error, and the prompt is kept as in any cancelled turn.
            if message is not None:
                await journal.append(UserSaid(message))
            return "cancelled"
        previous = journal.state.model
        exchanges = TurnExchanges(
            session, routing, emit=self.emit, abort=self.abort, bill=self._bill, checked=not continued
        )
        name = exchanges.route.name
        if continued:
            await journal.append(Switched(previous=previous, model=name, reason="failover"))
        await journal.append(*([UserSaid(message, name)] if message is not None else self._resumption(name)))
        self._exchanges = exchanges
        if previous != name or routing.skipped or session.skipped:
            exchanges.report_route(previous, cause)
        finish = await self._exchange_all(exchanges)
        if exchanges.error is None:
            session.compactor.summariser = exchanges.route
        return finish

    async def _open_routing(self, message: Message | None) -> Routing:
        """Where the turn goes, with a conversation that fits there. Raises why it cannot go anywhere."""
        router, compactor = self._session.router, self._session.compactor
        route = router.routes[0]
        compactor.warned = False
        need = await compactor.fit(route, router.context_limit, message, self.emit, self.abort)
        try:
            return router.open(need)
        except SegueError as error:
            if error.remedy != "shrink":
                raise
            limit = getattr(error, "limit", None)
            if not await compactor.shrink(route, limit, error.code, self.emit, self.abort):
                raise
            return router.open(await compactor.need(route, router.context_limit, message, self.abort))

    def _resumption(self, model: str) -> list[Entry]:
        state, output = self._session.journal.state, self._session.turn.output
        last = state.conversation.messages[-1]
        if last.speaker != "model":
            return [TurnResumed(model)]
        note = second_request(output, last.text) if state.answered else _CONTINUE
        return [TurnResumed(model), NoteAdded(Message("user", (Text(note),), instruction=True))]

    async def _exchange_all(self, exchanges: TurnExchanges) -> TurnFinish:
        """Ask the model and run what it calls, one after the other, until a reply has no calls or a limit is reached."""
        session = self._session
        while self._number < session.turn.budget.max_turns:
            self._number += 1
            reply = await exchanges.ask()
            calls, closed = reply.message.calls, _CUT.get(reply.finish)
            if not calls:
                if reply.finish not in ("error", "cancelled"):
                    self._complete(exchanges)
                return _ENDS[reply.finish]
            exchanges.exchange.ran = exchanges.exchange.ran or closed is None
            results = await session.scheduler.run(calls, session.tools, self.emit, self.abort, closed=closed)
            self._complete(exchanges)
            if closed is not None:
                return _ENDS[reply.finish]
            if any(
                type(block) is ToolResult and block.reason == "cancelled_by_user" for block in results.blocks
            ):
                return "cancelled"
            if session.next_role is not None:
                exchanges = await self._hand_over(exchanges)
        return "max_turns"

    async def _hand_over(self, exchanges: TurnExchanges) -> TurnExchanges:
        """Another agent answers from here on, in the same turn: all calls have ended."""
        session, previous = self._session, exchanges.route.name
        await session.take_role(self.abort)
        routing = await self._open_routing(None)
        self._exchanges = entered = TurnExchanges(
            session, routing, emit=self.emit, abort=self.abort, bill=self._bill, checked=True
        )
        if (name := entered.route.name) != previous:
            await session.journal.append(Switched(previous=previous, model=name, reason=HANDED_OVER))
            self.emit(Switch(previous, name, HANDED_OVER, session.losses(entered.route)))
        return entered

    def _complete(self, exchanges: TurnExchanges) -> None:
        latest = exchanges.latest
        self.emit(TurnComplete(self._number, exchanges.route.name, latest.usage, latest.cost))
        spent = self._session.turn.budget.exceeded(self._bill)
        if spent and latest.message.calls:  # a turn that ends anyway needs no stopping
            self.emit(Warned(spent, OVER_BUDGET))
            self.abort.set()

    async def _end(
        self, finish: TurnFinish, error: SegueError | None
    ) -> tuple[TurnFinish, SegueError | None]:
        """Write the end of the turn. Calls that an unforeseen error left open are closed as after a crash."""
        try:
            end = TurnEnded(finish, None if error is None else error.as_dict())
            await self._session.journal.close_turn(end)
        except SegueError as caught:
            return "error", error or caught
        except Exception as caught:  # a store is anybody's code
            return "error", error or unexpected(caught)
        return finish, error

    def _answer(self, finish: TurnFinish, error: SegueError | None) -> Answer:
        exchanges, bill = self._exchanges, self._bill
        usage, cost, at_least = bill.usage, bill.cost, bill.at_least
        if exchanges is None:
            return Answer(finish=finish, usage=usage, cost=cost, at_least=at_least, error=error)
        message = exchanges.latest.message
        return Answer(
            text=message.text,
            output=self._output,
            message=message,
            finish=finish,
            usage=usage,
            cost=cost,
            at_least=at_least,
            model=exchanges.route.name,
            exchanges=self._number,
            error=error,
        )

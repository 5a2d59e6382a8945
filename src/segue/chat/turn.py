"""The turn: from a user's message to a reply without calls. It asks the model and runs its calls until there are none."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self, assert_never, final

from msgspec import Struct, field

from segue.chat.chat_session import ChatSession
from segue.chat.output_type import second_request
from segue.chat.steps import (
    Ask,
    Done,
    Limited,
    RunTools,
    Sleep,
    TurnState,
    Wait,
    Woken,
    next_step,
    routes_left,
    take,
    turn_of,
)
from segue.chat.turn_exchange import TurnExchanges
from segue.chat.turn_settings import OVER_BUDGET
from segue.conversation.blocks import Text, ToolResult
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.errors import ProtocolError, SegueError
from segue.events import Compaction, Emit, Error, Finish, Switch, ToolCallResult, TurnComplete, Warned
from segue.exchange.attempt import unexpected
from segue.providers.models.prices import Bill
from segue.routing.router import Need
from segue.sessions.entries import (
    ApprovalAsked,
    CallBegun,
    CallEnded,
    Compacted,
    Entry,
    ModelReplied,
    NoteAdded,
    Switched,
    ToolsAnswered,
    TurnEnded,
    TurnFinish,
    TurnResumed,
    UserSaid,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from typing_extensions import TypeVar

    from segue.chat.steps import Outcome, Step
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


@final
class Answer(Struct, Generic[OutputT_co], frozen=True, kw_only=True):
    """The outcome of a turn. A turn that failed has an `error`; its `text` is the part of the reply before it."""

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
    """The same with what is known of parts without a whole price: what budgets hold against."""
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
    sleeps: bool = False
    """Whether somebody else sleeps for it, as long as a provider wants; else it fails."""
    abandoned: bool = False
    """Nobody waits for it any more: it is about to be cancelled, if it is not yet."""
    task: asyncio.Task[None] | None = None
    """Its own, from which it is run."""
    _bill: Bill = field(default_factory=Bill)
    _exchanges: TurnExchanges | None = None
    _state: TurnState = TurnState()
    _number: int = 0
    """Of the exchange that was made last."""
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
        """Everything up to `answer`, whatever happens; all events but `Finish`. None: resume the last turn."""
        step = await self.begin(message)
        while type(step) is not Done and type(step) is not Wait:
            step = await self.perform(step)

    async def begin(
        self,
        message: Message | None,
        key: str = "",
        *,
        elsewhere: Routing | None = None,
        cause: SegueError | None = None,
    ) -> Step:
        """The first step. `elsewhere` and `cause`: where to continue a turn that has failed, and why it has."""
        return await self._after(self._open(message, key, elsewhere, cause))

    async def perform(self, step: Step) -> Step:
        """Do a step; the one after it. Whatever happens in it, the chat stays usable."""
        return await self._after(self._perform(step))

    async def reopen(self) -> Step:
        """The step that is due in a turn that somebody has begun, perhaps in another process, from its journal alone."""
        return await self._after(self._reopen())

    async def _after(self, doing: Awaitable[None]) -> Step:
        """A turn that fails where another member of its router may succeed is continued there, as a turn of its own."""
        finish: TurnFinish = "error"
        error: SegueError | None = None
        try:
            await doing
            step = next_step(self._state)
            if type(step) is Wait:
                self.answer = self._answer("waiting", None)
            if type(step) is not Done:
                return step
            finish = step.finish
            error = None if self._exchanges is None else self._exchanges.error
            if error is None and finish == "complete":
                self._output = self._read_output()
        except SegueError as caught:
            finish, error = "error", caught
        except Exception as caught:
            error = unexpected(caught)
        finish, error = await self._end(finish, error)
        if error is not None and (routing := self._continuation()) is not None:
            return await self.begin(None, elsewhere=routing, cause=error)
        if error is not None:
            self.emit(Error(error))
        self.answer = self._answer(finish, error)
        return Done(next_step(self._state).key, finish)

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
        return self._exchanges.continuation()

    def emit(self, event: ChatEvent) -> None:
        # What tools and summaries cost is part of the turn's price.
        if type(event) is ToolCallResult or type(event) is Compaction:
            self._bill.add(event.usage, event.cost, event.at_least)
        self._listener(event)

    async def _open(
        self, message: Message | None, key: str, elsewhere: Routing | None, cause: SegueError | None
    ) -> None:
        session, journal = self._session, self._session.journal
        if message is None and elsewhere is None and journal.state.waits:
            await self._reopen()
            return
        if journal.state.in_turn:
            await journal.close_turn()
        try:
            routing = elsewhere or await self._open_routing(message)
        except SegueError:
            if not self.abort.is_set():
                raise
            # What was not found out in time is nobody's error, and the prompt is kept as in any cancelled turn.
            if message is not None:
                await journal.append(UserSaid(message, key=key))
            self._state = TurnState(finish="cancelled")
            return
        previous = journal.state.model
        exchanges = self._exchanges_over(routing, checked=elsewhere is None)
        name = exchanges.route.name
        if elsewhere is not None:
            await journal.append(Switched(previous=previous, model=name, reason="failover"))
        # The exchange that failed elsewhere is made again.
        exchange = 1 if elsewhere is None else self._state.exchange
        turn, limit = journal.state.last_seq + 1, session.turn.budget.max_turns
        await journal.append(
            *([UserSaid(message, name, key)] if message is not None else self._resumption(name))
        )
        self._exchanges = exchanges
        self._state = TurnState(turn=turn, limit=limit, exchange=exchange)
        if previous != name or routing.skipped or session.skipped:
            exchanges.report_route(previous, cause)

    async def _reopen(self) -> None:
        session, journal = self._session, self._session.journal
        records = await journal.store.read(journal.session)
        self._state = turn_of(records, session.turn.budget.max_turns)
        previous, left = journal.state.model, routes_left(records)
        routing = session.router.open(Need(), prefer=previous, left=left - {previous})
        # Whoever began the turn has made the conversation fit there, before anything was asked.
        fits = isinstance(records[-1].entry, UserSaid) and routing.route.name == previous
        self._exchanges = exchanges = self._exchanges_over(routing, checked=fits)
        for record in records[self._state.turn :]:
            entry = record.entry
            if isinstance(entry, ModelReplied):
                exchanges.latest = entry
            if isinstance(entry, (ModelReplied, CallEnded, Compacted)):
                self._bill.add(entry.usage, entry.cost)
            exchanges.exchange.ran = exchanges.exchange.ran or isinstance(entry, CallBegun)
        if previous != exchanges.route.name:
            await journal.append(Switched(previous=previous, model=exchanges.route.name, reason="failover"))
            exchanges.report_route(previous)
        self._number = self._state.exchange

    def _exchanges_over(self, routing: Routing, *, checked: bool) -> TurnExchanges:
        return TurnExchanges(
            self._session, routing, emit=self.emit, abort=self.abort, bill=self._bill, checked=checked
        )

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

    async def _perform(self, step: Step) -> None:
        exchanges, session = self._exchanges, self._session
        if exchanges is None:
            raise SegueError("The turn has not begun.")
        match step:
            case Ask():
                self._number = self._state.exchange
                reply = await exchanges.ask()
                if self.sleeps and (seconds := exchanges.limited_for()):
                    self._take(Limited(seconds))
                    return
                if not reply.message.calls and reply.finish not in ("error", "cancelled"):
                    self._complete(exchanges)
                self._take(reply)
            case RunTools():
                exchanges.exchange.ran = exchanges.exchange.ran or step.closed is None
                ran = await session.scheduler.run(
                    step.calls,
                    session.tools,
                    self.emit,
                    self.abort,
                    closed=step.closed,
                    scheduled=step.scheduled,
                )
                if isinstance(ran, ApprovalAsked):
                    self._take(ran)
                    return
                self._complete(exchanges)
                self._take(*(CallEnded(block) for block in ran.blocks if type(block) is ToolResult))
                self._take(ToolsAnswered(tuple(call.id for call in step.calls)))
                if session.next_role is not None and type(next_step(self._state)) is Ask:
                    await self._hand_over(exchanges)
            case Sleep():  # whoever performs the steps has slept
                self._take(Woken())
            case Wait() | Done():
                pass
            case _:
                assert_never(step)

    def _take(self, *outcomes: Outcome) -> None:
        for outcome in outcomes:
            self._state = take(self._state, outcome)

    async def _hand_over(self, exchanges: TurnExchanges) -> None:
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
        message, output = exchanges.latest.message, self._output
        if self._session.turn.output is None and output is not None:  # a text, as its check returned it
            text, output = output, None
        else:
            text = message.text
        return Answer(
            text=text,
            output=output,
            message=message,
            finish=finish,
            usage=usage,
            cost=cost,
            at_least=at_least,
            model=exchanges.route.name,
            exchanges=self._number,
            error=error,
        )


@final
class EventStream:
    """The events of one turn, which begins when the first is asked for. The last one is `Finish`. Whoever stops iterating cancels
    the turn."""

    def __init__(self, begin: Callable[[Emit], Awaitable[Turn]]) -> None:
        self._begin = begin
        self._turn: Turn | None = None
        self._events: asyncio.Queue[ChatEvent] = asyncio.Queue()
        self._over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        if self._over:
            raise StopAsyncIteration
        if self._turn is None:
            self._turn = await self._begin(self._events.put_nowait)
        try:
            event = await self._events.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        self._over = type(event) is Finish
        return event

    async def aclose(self) -> None:
        """Cancel the turn if it still runs, and wait for its end."""
        over, self._over = self._over, True
        if self._turn is not None and not over:
            await self._turn.stop()

    def __del__(self) -> None:
        if self._turn is not None and not self._over:
            self._turn.abandon()

"""One session while it is open: its journal, its one scheduler, and the turns that are taken in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.chat.attempt import unexpected
from segue.chat.drive import drive
from segue.chat.exchange import Exchanges, Terms
from segue.chat.turn import Ask, Intent, Outcome, RunTools, take_turn
from segue.conversation.blocks import Text
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.errors import SegueError
from segue.events import Compaction, Error, ToolCallResult, TurnComplete, Warned
from segue.providers.models.prices import Bill
from segue.sessions.entries import Entry, NoteAdded, TurnEnded, TurnFinish, TurnResumed, UserSaid
from segue.sessions.recovery import closing_entries

if TYPE_CHECKING:
    import asyncio

    from segue.chat.budget import Budget
    from segue.chat.compaction.trigger import Shortening
    from segue.events import ChatEvent, Emit
    from segue.routing.route import Route
    from segue.routing.router import Router
    from segue.sessions.journal import Journal
    from segue.tools.definition import Approves, Tool
    from segue.tools.scheduler import Scheduler


OVER_BUDGET = "over_budget"
_GO_ON = Message(
    "user", (Text("Your reply was cut off here. Go on where it stopped; repeat nothing."),), instruction=True
)


@final
class Answer(Struct, frozen=True, kw_only=True):
    """What came of a turn. A turn that failed has an `error`, and as `text` what came before it."""

    text: str = ""
    message: Message | None = None
    """The last reply."""
    finish: TurnFinish = "complete"
    usage: Usage = Usage()
    """Of the whole turn: its exchanges, summaries and subagents."""
    cost: float | None = None
    """Dollars, where prices are known."""
    model: str = ""
    exchanges: int = 0
    error: SegueError | None = None

    def __str__(self) -> str:
        return self.text

    def or_raise(self) -> Answer:
        """The answer itself, or its error as an exception."""
        if self.error is not None:
            raise self.error
        return self


class Session:
    """Takes turns, one at a time. Interactive, one-shot and subagent chats differ only in who hears the events."""

    def __init__(
        self,
        journal: Journal,
        terms: Terms,
        scheduler: Scheduler,
        shortening: Shortening,
        *,
        budget: Budget,
    ) -> None:
        self.journal = journal
        self.terms = terms
        self.scheduler = scheduler
        self.shortening = shortening
        self.budget = budget

    def equip(self, tools: tuple[Tool, ...], approval: Approves) -> None:
        """Other tools from now on; the scheduler stays the same."""
        self.scheduler.tools = {tool.name: tool for tool in tools}
        self.scheduler.approval = approval
        self.terms.tools = tuple(tool.spec for tool in tools)

    def can_resume(self) -> bool:
        """Whether the last turn ended before its answer was whole."""
        state = self.journal.state
        messages = state.conversation.messages
        whole = not state.in_turn and state.finish in (None, "complete")
        return bool(messages) and (messages[-1].speaker != "model" or not whole)

    async def take_turn(
        self, said: Message | None, router: Router, emit: Emit, abort: asyncio.Event
    ) -> Answer:
        """From a user's message to the end of the turn, whatever happens. All but `Finish` is told here.

        Where nothing is said, the last turn goes on.
        """
        taken = _Taken(self, emit, abort)
        finish: TurnFinish = "error"
        error: SegueError | None = None
        try:
            finish = await taken.run(said, router)
            error = taken.error
        except SegueError as caught:
            error = caught
        except Exception as caught:  # whatever happens in a turn, the chat stays usable
            error = unexpected(caught)
        finish, error = await self._close(finish, error)
        if error is not None:
            emit(Error(error))
        return taken.answer(finish, error)

    async def _close(
        self, finish: TurnFinish, error: SegueError | None
    ) -> tuple[TurnFinish, SegueError | None]:
        """Make the turn terminal. Calls that an unforeseen error left open are closed as after a crash."""
        told = None if error is None else error.as_dict()
        try:
            if entries := closing_entries(self.journal.state):
                await self.journal.append(*entries[:-1], TurnEnded(finish, told))
        except SegueError as caught:
            return "error", error or caught
        except Exception as caught:  # a store is anybody's code
            return "error", error or unexpected(caught)
        return finish, error


class _Taken:
    """A turn while it is taken."""

    def __init__(self, session: Session, emit: Emit, abort: asyncio.Event) -> None:
        self._session = session
        self._listener = emit
        self._abort = abort
        self._bill = Bill()
        self._exchanges: Exchanges | None = None
        self._number = 0

    @property
    def error(self) -> SegueError | None:
        return None if self._exchanges is None else self._exchanges.error

    async def run(self, said: Message | None, router: Router) -> TurnFinish:
        session = self._session
        journal = session.journal
        await journal.close_turn()
        try:
            routing = await session.shortening.open_route(router, said, self._emit, self._abort)
        except SegueError:
            if self._abort.is_set():  # what was not found out in time is nobody's error
                return "cancelled"
            raise
        previous = _member(router, journal.state.model)
        await journal.append(*self._opening(said, routing.route.name))
        self._exchanges = Exchanges(
            journal,
            routing,
            session.terms,
            emit=self._emit,
            abort=self._abort,
            shrink=self._shrink,
            bill=self._bill,
        )
        self._exchanges.begin(previous)
        finish = await drive(take_turn(session.budget.max_turns), self._grant)
        if self.error is None:
            session.shortening.narrator = self._exchanges.route
        return finish

    def _opening(self, said: Message | None, model: str) -> list[Entry]:
        if said is not None:
            return [UserSaid(said, model)]
        cut_off = self._session.journal.state.conversation.messages[-1].speaker == "model"
        return [TurnResumed(model), *([NoteAdded(_GO_ON)] if cut_off else [])]

    def _emit(self, event: ChatEvent) -> None:
        # What tools and summaries cost is part of the turn's price.
        if type(event) is ToolCallResult or type(event) is Compaction:
            self._bill.add(event.usage, event.cost)
        self._listener(event)

    async def _shrink(self, route: Route, *, why: str) -> bool:
        return await self._session.shortening.shrink(route, why, self._emit, self._abort)

    async def _grant(self, wish: Intent) -> Outcome:
        exchanges = self._exchanges
        assert exchanges is not None  # noqa: S101 - wishes come after `run` began
        if type(wish) is Ask:
            self._number = wish.number
            reply = await exchanges.ask()
            if not reply.message.calls and reply.finish not in ("error", "cancelled"):
                self._complete(exchanges)
            return reply
        assert type(wish) is RunTools  # noqa: S101 - there are two wishes
        exchanges.ran = exchanges.ran or wish.closed is None
        results = await self._session.scheduler.run(wish.calls, self._emit, self._abort, closed=wish.closed)
        self._complete(exchanges)
        return results

    def _complete(self, exchanges: Exchanges) -> None:
        latest = exchanges.latest
        self._emit(TurnComplete(self._number, exchanges.route.name, latest.usage, latest.cost))
        spent = self._session.budget.exceeded(self._bill)
        if spent and latest.message.calls:  # a turn that ends anyway needs no stopping
            self._emit(Warned(spent, OVER_BUDGET))
            self._abort.set()

    def answer(self, finish: TurnFinish, error: SegueError | None) -> Answer:
        exchanges = self._exchanges
        if exchanges is None:
            return Answer(finish=finish, usage=self._bill.usage, cost=self._bill.cost, error=error)
        return Answer(
            text=exchanges.latest.message.text,
            message=exchanges.latest.message,
            finish=finish,
            usage=self._bill.usage,
            cost=self._bill.cost,
            model=exchanges.route.name,
            exchanges=self._number,
            error=error,
        )


def _member(router: Router, name: str) -> str:
    """The name, if it is one of the router's members."""
    return name if any(route.name == name for route in router.routes) else ""

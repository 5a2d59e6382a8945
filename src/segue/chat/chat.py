"""The chat: what a user holds.

    async with Chat("anthropic/claude-sonnet-4-6", tools=[weather]) as chat:
        print(await chat.send("Do I need an umbrella in Oslo?"))
        await chat.switch("openai/gpt-5.2")
        async for event in chat.stream("And tomorrow?"):
            ...

The conversation is kept over all turns, models and providers. A turn that fails or is cancelled leaves a chat that
can go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.chat.attempt import unexpected
from segue.chat.budget import Budget
from segue.chat.compaction.trigger import CompactionSettings
from segue.chat.opened import Model, Opened
from segue.chat.opening import Settings, checked_tools, own_functions_only
from segue.chat.running import EventStream, RunningTurn, spoken
from segue.conversation.json_safe import encodable
from segue.conversation.options import Options
from segue.errors import SegueError, UsageError
from segue.events import ChatEvent, Finish, Switch, Warned
from segue.limits import MAX_EXCHANGES
from segue.routing.member_facts import provider_of
from segue.sessions.entries import SettingsChanged, Switched
from segue.tools.function_tools import as_tool
from segue.transcript.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segue.chat.blocking import BlockingChat
    from segue.chat.compaction import Strategy
    from segue.chat.session import Answer, Session
    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.events import Compaction
    from segue.providers.adapter import Providers
    from segue.routing.router import Router
    from segue.sessions.entries import Link
    from segue.sessions.stores.store import Store
    from segue.tools.definition import Approves, Tool

__all__ = ["Chat", "Model"]


class Chat(Opened):
    """A conversation with whichever model comes next. It takes one turn at a time."""

    def __init__(  # noqa: PLR0913 - everything that a user may choose, all of it optional
        self,
        model: Model = "",
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        system: str = "",
        session: str | None = None,
        store: Store | None = None,
        providers: Providers | None = None,
        options: Options = Options(),  # noqa: B008 - a frozen value
        max_turns: int = MAX_EXCHANGES,
        budget: Budget | None = None,
        approval: Approves | None = None,
        policy: Policy = Policy(),  # noqa: B008 - a frozen value
        compaction: CompactionSettings = CompactionSettings(),  # noqa: B008 - a frozen value
        title: str = "",
        directory: str = "",
        parent: Link | None = None,
        take_over: bool = False,
    ) -> None:
        """`session`: go on with that one, or begin it under this id. Without a `store` it ends with the process.

        `max_turns`: exchanges with the model within one turn, where no `budget` says it. `approval`: who may call what; without it functions run
        that were written for this chat, and tools that read. `take_over`: also if another process has the session.
        """
        settings = Settings(
            tools=checked_tools(as_tool(tool) for tool in tools),
            system=encodable(system),
            session=session,
            store=store,
            providers=providers,
            options=options,
            budget=budget or Budget(max_turns=max_turns),
            approval=approval,
            policy=policy,
            compaction=compaction,
            title=encodable(title),
            directory=directory,
            parent=parent,
            take_over=take_over,
        )
        super().__init__(model, settings)
        self._wanted: Router | None = None
        self._turn: RunningTurn | None = None
        self.answer: Answer | None = None
        """Of the last turn."""

    async def close(self) -> None:
        """Cancel what runs, and let go of the session; it can be opened again."""
        if self._turn is not None:
            await self._turn.stop()
        await super().close()

    @property
    def busy(self) -> bool:
        return self._turn is not None

    # Say something

    async def send(self, *said: str | Block) -> Answer:
        """Say something and wait for the end of the turn. An error is in the answer; `or_raise` raises it."""
        return await self._answer(said)

    def stream(self, *said: str | Block) -> EventStream:
        """Say something and hear what happens while it does; the last event is `Finish`.

        Who stops listening cancels the turn.
        """
        return EventStream(lambda emit: self._begin(said, emit))

    async def resume(self) -> Answer:
        """Take the last turn up where it stopped: by a crash, an error, a limit, or because it was cancelled.

        Calls that ran are not run again; of those that a crash cut short the model reads that nobody knows.
        """
        return await self._answer(None)

    def stream_resumed(self) -> EventStream:
        """The same, heard while it happens."""
        return EventStream(lambda emit: self._begin(None, emit))

    async def _answer(self, said: tuple[str | Block, ...] | None) -> Answer:
        turn = await self._begin(said, lambda _event: None)
        await turn.over()
        return turn.answer

    async def _begin(
        self, said: tuple[str | Block, ...] | None, emit: Callable[[ChatEvent], None]
    ) -> RunningTurn:
        message = None if said is None else spoken(said)
        session = await self._at_rest("say something")
        if message is None and not session.can_resume():
            raise UsageError(
                "The last turn has its whole answer.",
                code="nothing_to_go_on_with",
                hint="Say something instead.",
            )
        self._turn = RunningTurn(emit)
        self._turn.start(self._take(self._turn, message))
        return self._turn

    async def _take(self, turn: RunningTurn, message: Message | None) -> None:
        session, router = self._parts()
        try:
            turn.answer = await session.take_turn(message, router, turn.emit, turn.abort)
            if self._wanted is not None:
                turn.emit(await self._go_to(self._wanted))
        except Exception as error:  # of the switch: the turn is over and its answer stands
            told = error if isinstance(error, SegueError) else unexpected(error)
            turn.emit(Warned(f"The switch failed. {told}", told.code))
        finally:
            # Whoever hears of the end may go on at once.
            self.answer, self._turn = turn.answer, None
            turn.emit(Finish(turn.answer.finish, turn.answer.usage, turn.answer.cost))

    def cancel(self) -> bool:
        """Stop the turn that runs, if one does. What was said and done until now is kept."""
        if self._turn is None:
            return False
        self._turn.abort.set()
        return True

    # Change course

    async def switch(self, model: Model) -> Switch | None:
        """Let another model answer from the next turn on; nothing is told while a turn runs, whose end it waits for.

        Of several switches asked for during a turn the last one holds.
        """
        await self.open()
        session, _ = self._parts()
        router = self._router_for(model, session.terms.providers)
        for route in router.routes[:1]:
            provider_of(route, session.terms.providers)
        if self._turn is not None:
            self._wanted = router
            return None
        return await self._go_to(router)

    async def _go_to(self, router: Router) -> Switch:
        session, previous = self._parts()
        self._wanted = None
        await session.journal.append(Switched(previous=previous.name, model=router.name))
        self._router = router
        losses = session.terms.losses(session.journal.state, router.routes[0])
        return Switch(previous.name, router.name, "asked", losses)

    async def undo(self) -> None:
        """Take the last turn back. What its tools did to the world stays done."""
        await (await self._at_rest("undo")).journal.undo()

    async def redo(self) -> None:
        await (await self._at_rest("redo")).journal.redo()

    async def fork(self, *, session: str = "") -> Chat:
        """A chat of its own that begins with all that was said here."""
        here = await self._at_rest("fork")
        journal = await here.journal.fork(session=session)
        await journal.close()
        inherited = structs.asdict(self._settings) | {
            "session": journal.session,
            "store": journal.store,
            "providers": here.terms.providers,
            "system": "",
            "title": "",
            "take_over": False,
        }
        forked = Chat(self._router or self._model, **inherited)
        await forked.open()
        return forked

    async def change(self, *, system: str | None = None, options: Options | None = None) -> None:
        """Another system prompt or other options, from the next turn on."""
        session = await self._at_rest("change settings")
        await session.journal.append(SettingsChanged(system=system, options=options))
        session.terms.options = session.terms.options if options is None else options

    async def equip(self, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        """Other tools than until now, from the next turn on."""
        session = await self._at_rest("change tools")
        given = checked_tools(as_tool(tool) for tool in tools)
        self._settings = structs.replace(self._settings, tools=given)
        session.equip(given, self._settings.approval or own_functions_only(given))

    async def rename(self, title: str) -> None:
        await self.open()
        await self.journal.rename(encodable(title))

    async def compact(self, strategy: Strategy | None = None) -> Compaction | None:
        """Make the conversation shorter now; nothing if there is nothing to leave out."""
        session = await self._at_rest("compact")
        route = self._parts()[1].routes[0]
        self._turn = busy = RunningTurn(lambda _event: None)
        try:
            return await session.shortening.shorten(
                route, None, "asked", busy.emit, busy.abort, strategy=strategy
            )
        finally:
            self._turn = None
            if self._wanted is not None:
                await self._go_to(self._wanted)

    def blocking(self) -> BlockingChat:
        """The same chat for programs without an event loop."""
        from segue.chat.blocking import BlockingChat  # noqa: PLC0415 - it knows this module

        return BlockingChat(self)

    async def _at_rest(self, what: str) -> Session:
        await self.open()
        await self._wait_for_rest(what)
        return self._parts()[0]

    async def _wait_for_rest(self, what: str) -> None:
        """A turn that was cancelled is waited for; one that goes on is not to be disturbed."""
        if self._turn is not None and self._turn.ending:
            await self._turn.stop()
        if self._turn is not None:
            raise UsageError(
                f"A turn is running: cannot {what} now.",
                code="turn_in_flight",
                hint="Wait for its end, or cancel it first.",
            )

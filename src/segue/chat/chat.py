"""The chat: what a user holds.

    async with Chat("anthropic/claude-sonnet-4-6", tools=[weather]) as chat:
        print(await chat.send("Do I need an umbrella in Oslo?"))
        await chat.switch("openai/gpt-5.2")
        async for event in chat.stream("And tomorrow?"):
            ...

The conversation is kept over all turns, models and providers. After a turn that fails or is cancelled the chat stays
usable.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from msgspec import structs

from segue.chat.attachments import Content, user_message
from segue.chat.chat_session import ChatSession, ChatSettings
from segue.chat.compaction.trigger import CompactionSettings
from segue.chat.given_history import GivenHistory, history_in
from segue.chat.roles import Role, SystemPrompt, checked_function
from segue.chat.turn import EventStream, Turn, can_resume
from segue.chat.turn_settings import Budget, TurnOptions, TurnSettings, check_options
from segue.conversation.json_safe import encodable
from segue.conversation.options import Options
from segue.errors import SegueError, UsageError
from segue.events import Finish, Repaired, Switch, Warned
from segue.exchange.attempt import unexpected
from segue.limits import MAX_EXCHANGES
from segue.routing.route import parse_route
from segue.sessions.approvals import CallAnswer, WaitingCalls
from segue.sessions.entries import SettingsChanged, Switched
from segue.sessions.export import as_document
from segue.telemetry.switch import observer
from segue.text.suggestions import named_keywords
from segue.tools.function_tools import tools_in
from segue.transcript.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import TypeVar as DefaultTypeVar

    from segue.chat.blocking import BlockingChat
    from segue.chat.compaction.compact import Strategy
    from segue.chat.stepwise import StepwiseChat
    from segue.chat.turn import Answer
    from segue.conversation.blocks import Media, ToolCall
    from segue.conversation.interaction import Ledger
    from segue.conversation.message import Conversation, Message
    from segue.conversation.usage import Usage
    from segue.events import Compaction, Emit
    from segue.providers.adapter import Providers, RequestSent
    from segue.routing.router import Model, Router
    from segue.sessions.entries import Link
    from segue.sessions.journal import Journal
    from segue.sessions.stores.store import Store
    from segue.tools.definition import Approves, Tool

    OutputT_co = DefaultTypeVar("OutputT_co", default=None, covariant=True)
else:
    OutputT_co = TypeVar("OutputT_co", covariant=True)

T = TypeVar("T")


class Chat(Generic[OutputT_co]):
    """A conversation with whichever model comes next. It takes one turn at a time.

    `async with Chat("provider/model") as chat: answer = await chat.send("…")`; without asyncio `Chat(…).blocking()`.
    """

    @named_keywords("Chat", options=Options.__struct_fields__, budget=Budget.__struct_fields__)
    def __init__(  # noqa: PLR0913 - everything that a user may choose, all of it optional
        self,
        model: Model = "",
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        system: SystemPrompt = "",
        deps: Any = None,
        history: GivenHistory | None = None,
        session: str | None = None,
        store: Store | None = None,
        providers: Providers | None = None,
        options: Options = Options(),  # noqa: B008 - a frozen value
        max_turns: int = MAX_EXCHANGES,
        budget: Budget | None = None,
        approval: Approves | None = None,
        policy: Policy = Policy(),  # noqa: B008 - a frozen value
        compaction: CompactionSettings = CompactionSettings(),  # noqa: B008 - a frozen value
        continue_turns: bool = True,
        title: str = "",
        directory: str = "",
        parent: Link | None = None,
        take_over: bool = False,
    ) -> None:
        """Nothing is sent and no file is written before the chat is opened, or the first message is sent.

        Args:
            model: Who answers: `provider/model`, a Route, or a router of several. Without it the default of the configuration,
                or the model of the session that is resumed.
            tools: Functions with annotations, and tools, that the model may call.
            system: The system prompt; or a function that takes a `Context` and returns it, called at the beginning of each turn.
            deps: What tools, instructions and checks find as `context.deps`: connections, settings, the user of this request.
            history: Earlier messages: messages of any provider's API, a whole request, a conversation, the bytes or the Path
                of a session file. It is made valid for whichever model comes next; repairs are events of the first turn.
            session: The id of a session: resume that one, or begin it under this id.
            store: Where sessions are kept. Without one the session ends with the process.
            providers: Where models are found, by the name of a provider. Without it those of the configuration.
            options: Temperature, length, effort and the like, for every model as far as it knows them.
            max_turns: Exchanges with the model within one turn, where no `budget` is given.
            budget: What a turn may cost: exchanges, tokens, dollars, corrections.
            approval: Which calls may run. Without it functions that were written for this chat may, and tools that only read.
            policy: How a conversation is rendered for another model.
            compaction: When and how a conversation that grows too long is shortened.
            continue_turns: The next member of a router continues a turn that fails after calls have run.
            title: Of the session, for people.
            directory: The folder that the session belongs to, for people and for the command line.
            parent: The call that this session answers, where it is a subagent's.
            take_over: Resume the session also if another process has it.
        """
        role = Role(
            model=model, tools=tools_in(tools), system=checked_function(system, "system", ("a Context",))
        )
        settings = ChatSettings(
            deps=deps,
            history=history_in(history),
            session=session,
            store=store,
            providers=providers,
            options=options,
            budget=budget or Budget(max_turns=max_turns),
            approval=approval,
            policy=policy,
            compaction=compaction,
            continue_turns=continue_turns,
            title=encodable(title),
            directory=directory,
            parent=parent,
            take_over=take_over,
        )
        self._hold(ChatSession(role, settings))

    @classmethod
    def of_session(cls, session: ChatSession) -> Chat[Any]:
        """The chat of a session that was prepared elsewhere: an agent's, a fork's."""
        chat: Chat[Any] = cls.__new__(cls)
        chat._hold(session)
        return chat

    def _hold(self, session: ChatSession) -> None:
        self._session = session
        self._turn: Turn | None = None
        self._next_router: Router | None = None
        """Asked for while a turn runs; it is used from the end of the turn on."""
        self.answer: Answer[Any] | None = None
        """Of the last turn."""

    async def __aenter__(self) -> Self:
        await self._session.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Begin or resume the session. Whatever needs it open does it too."""
        await self._session.open()

    async def close(self) -> None:
        """Cancel what runs, and release the session; it can be opened again."""
        if self._turn is not None:
            await self._turn.stop()
        await self._session.close()

    # What can be seen of it

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None

    @property
    def id(self) -> str:
        """Of the session."""
        return self._session.require_open().journal.session

    @property
    def model(self) -> str:
        """Who answers next: `provider/model`, or the name of a router."""
        return self._session.require_open().router.name

    @property
    def router(self) -> Router:
        """Who answers next, and who after it if it fails."""
        return self._session.require_open().router

    @property
    def store(self) -> Store | None:
        """Where its session is kept; None before it is opened, if none was given."""
        return self._session.settings.store

    @property
    def options(self) -> Options:
        """Temperature, length, effort and the like, as they hold for the next turn."""
        return self.journal.state.options

    @property
    def journal(self) -> Journal:
        """The stored entries of the session."""
        return self._session.require_open().journal

    @property
    def conversation(self) -> Conversation:
        """All messages of the session, in order, as the next request is rendered from."""
        return self.journal.state.conversation

    @property
    def ledger(self) -> Ledger:
        """All calls of tools and how each ended, by the ids of the calls."""
        return self.journal.state.ledger

    @property
    def usage(self) -> Usage:
        """Of all turns ever taken in the session."""
        return self.journal.state.usage

    @property
    def cost(self) -> float | None:
        """Dollars of all turns; None if the price of none of them is known."""
        return self.journal.state.cost

    def export(self) -> bytes:
        """The conversation as a JSON document that `segue` and its tools read, including what was compacted."""
        return as_document(self.journal.state, self._session.tools.specs)

    def view(self, model: str = "") -> bytes:
        """The request that a model would get now, as it would be sent: by default the one that answers next."""
        return self.preview(model).body

    def preview(self, model: str = "") -> RequestSent:
        """The same with the repairs that it took."""
        return self._session.require_open().preview(parse_route(model) if model else self.router.routes[0])

    def unseen(self, *content: Content, model: str = "") -> tuple[Media, ...]:
        """Media of such a message that a model would read described in words, because it cannot take them."""
        session = self._session.require_open()
        route = parse_route(model) if model else session.router.routes[0]
        return session.unseen(route, user_message(content))

    # Turns

    @overload
    async def send(
        self, *content: Content, output: None = None, raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[OutputT_co]: ...
    @overload
    async def send(
        self, *content: Content, output: type[T], raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[T]: ...
    @overload
    async def send(
        self, *content: Content, output: dict[str, Any], raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[Any]: ...
    async def send(
        self, *content: Content, output: Any = None, raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[Any]:
        """Send a message and wait for the end of the turn. Raises why it failed; the error has the `answer` so far.

        `output`: the type that the answer must have, or a JSON Schema; its value is `answer.output`. `raises=False`: return
        the answer of a failed turn too, with its `error`. What else is given holds for this turn only.
        """
        check_options("Chat.send", turn)
        return await self._answer(user_message(content), output, turn, raises=raises)

    def stream(self, *content: Content, output: Any = None, **turn: Unpack[TurnOptions]) -> EventStream:
        """Send a message and receive the events of the turn while it runs; the last one is `Finish`.

        Whoever stops iterating cancels the turn. An error is an event; `answer` has the rest.
        """
        check_options("Chat.stream", turn)
        message = user_message(content)
        return EventStream(lambda emit: self._begin(message, output, turn, emit, partial=True))

    @overload
    async def resume(
        self, *, output: None = None, raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[OutputT_co]: ...
    @overload
    async def resume(
        self, *, output: type[T], raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[T]: ...
    @overload
    async def resume(
        self, *, output: dict[str, Any], raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[Any]: ...
    async def resume(
        self, *, output: Any = None, raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[Any]:
        """Resume the last turn where it stopped: by a crash, an error, a limit, or because it was cancelled.

        Calls that ran are not run again; of those that a crash cut short the model reads that their effect is unknown.
        It takes and raises what `send` does.
        """
        check_options("Chat.resume", turn)
        return await self._answer(None, output, turn, raises=raises)

    def stream_resumed(self, *, output: Any = None, **turn: Unpack[TurnOptions]) -> EventStream:
        """`resume` with the events of the turn while it runs."""
        check_options("Chat.stream_resumed", turn)
        return EventStream(lambda emit: self._begin(None, output, turn, emit, partial=True))

    async def _answer(
        self, message: Message | None, output: Any, turn: TurnOptions, *, raises: bool
    ) -> Answer[Any]:
        running = await self._begin(message, output, turn, lambda _event: None)
        await running.wait()
        answer = running.answer
        typed = output is not None or self._session.role.output is not None
        return answer if not raises else answer.with_output() if typed else answer.or_raise()

    async def _begin(
        self,
        message: Message | None,
        output: Any,
        options: TurnOptions,
        emit: Emit,
        *,
        partial: bool = False,
    ) -> Turn:
        session = await self._idle("send a message")
        if message is None and not can_resume(session.journal.state):
            raise UsageError(
                "The last turn is complete.",
                code="nothing_to_resume",
                hint="Send a message instead.",
            )
        settings = session.turn_settings(output, options, partial=partial)
        self._turn = turn = Turn(session, emit)
        try:
            if session.next_role is not None:  # a turn that ended before its conversation was handed over
                await session.take_role(turn.abort)
                settings = session.turn_settings(output, options, partial=partial)
            own, router = session.router, settings.router
            if settings.system is None:
                await session.instruct(turn.abort)
            if router is not None and router.name != own.name:
                # For this turn; the one it takes the place of follows it.
                emit(await self._switch_to(router))
                self._next_router = self._next_router or own
        except BaseException:
            self._turn = None
            raise
        if session.adoption_repairs:
            emit(Repaired(session.adoption_repairs))
            session.adoption_repairs = ()
        session.turn = settings
        turn.task = asyncio.create_task(self._run(turn, message))
        return turn

    async def _run(self, turn: Turn, message: Message | None) -> None:
        session = self._session
        try:
            with observer().turn(agent=session.role.name, session=self.id, model=self.model) as seen:
                await turn.run(message)
                answer = turn.answer
                seen.turn_ended(
                    model=answer.model, usage=answer.usage, finish=answer.finish, error=answer.error
                )
            session.turn = TurnSettings()
            if self._next_router is not None:
                turn.emit(await self._switch_to(self._next_router))
            await session.rest()
        except Exception as caught:  # of the switch: the turn is over and its answer stands
            error = caught if isinstance(caught, SegueError) else unexpected(caught)
            turn.emit(Warned(f"The switch failed. {error}", error.code))
        finally:
            session.turn = TurnSettings()
            # Whoever receives the end may begin the next turn at once.
            self.answer, self._turn = turn.answer, None
            turn.emit(Finish(turn.answer.finish, turn.answer.usage, turn.answer.cost))

    def cancel(self) -> bool:
        """Stop the turn that runs, if one does. Messages and results until now are kept."""
        if self._turn is None:
            return False
        self._turn.abort.set()
        return True

    async def switch(self, model: Model) -> Switch | None:
        """Let another model answer from the next turn on. None while a turn runs: it happens at the end of that.

        Of several switches asked for during a turn the last one holds.
        """
        await self.open()
        router = self._session.checked_router(model)
        if self._turn is not None:
            self._next_router = router
            return None
        switched = await self._switch_to(router)
        await self._session.rest()
        return switched

    async def _switch_to(self, router: Router) -> Switch:
        self._next_router = None
        previous = self.router.name
        await self.journal.append(Switched(previous=previous, model=router.name))
        self._session.model = self._session.router = router
        return Switch(previous, router.name, "asked", self._session.losses(router.routes[0]))

    # Between turns

    async def undo(self) -> None:
        """Take the last turn back. What its tools did to the world stays done."""
        await (await self._idle("undo")).journal.undo()

    async def redo(self) -> None:
        """Take back what `undo` took back."""
        await (await self._idle("redo")).journal.redo()

    async def fork(self, *, session: str = "") -> Chat[OutputT_co]:
        """A new chat that begins with this conversation."""
        here = await self._idle("fork")
        journal = await here.journal.fork(session=session)
        await journal.close()
        settings = structs.replace(here.settings, session=journal.session, store=journal.store)
        role = structs.replace(here.role, model=here.model)
        forked = Chat.of_session(ChatSession(role, settings, here.roles))
        if not here.role.successors:
            forked._session.equip(here.tools.by_name.values())
        await forked.open()
        return forked

    async def change(self, *, system: str | None = None, options: Options | None = None) -> None:
        """Another system prompt or other options, from the next turn on."""
        session = await self._idle("change settings")
        await session.journal.append(SettingsChanged(system=system, options=options))

    async def equip(self, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        """Other tools than until now, from the next turn on."""
        (await self._idle("change tools")).equip(tools)

    async def rename(self, title: str) -> None:
        """Another title of the session, for people."""
        await self.open()
        await self.journal.rename(encodable(title))

    async def compact(self, strategy: Strategy | None = None) -> Compaction | None:
        """Make the conversation shorter now; None if nothing can be dropped.

        `strategy`: this one and no other; a summary that cannot be had raises UsageError `no_summary`. By default the
        one of the settings, and where it fails another, with the reason in `problem`.
        """
        session = await self._idle("compact")
        self._turn = turn = Turn(session, lambda _event: None)
        try:
            return await session.compactor.compact(
                session.router.routes[0], None, "asked", turn.emit, turn.abort, strategy=strategy
            )
        finally:
            self._turn = None
            if self._next_router is not None:
                await self._switch_to(self._next_router)

    # Turns that wait, or that an engine performs

    @property
    def approvals(self) -> tuple[ToolCall, ...]:
        """Calls that must be approved or refused before the turn can continue. What others have answered meanwhile shows after
        `wait_for_approvals`, and when the turn is resumed."""
        state = self.journal.state
        return tuple(
            state.ledger[call_id].call for call_id, given in state.approvals.items() if given is None
        )

    async def approve(self, call_id: str, *, by: str, allow: bool = True, why: str = "") -> None:
        """Approve or refuse a call that waits for it; `by` is who decided. `resume` continues when all are answered.

        `why`: for the model to read, where it may not. The first answer holds: a later one raises UsageError with who gave it.
        """
        session = await self._idle("answer", wakes=False)
        answer = CallAnswer(call_id=call_id, allow=allow, by=by, why=why)
        await session.rest()
        try:
            await WaitingCalls(session.journal.store).answer(session.journal.session, answer)
        finally:
            await session.journal.look()

    async def wait_for_approvals(self, *, every: float = 1.0) -> None:
        """Until somebody, in whichever process, has answered for each call that waits, or has ended the turn. Looks into the store
        `every` so many seconds. `resume` continues the turn then."""
        await self.open()
        await self.journal.look()
        while self.approvals:
            await asyncio.sleep(every)
            await self.journal.look()

    def stepwise(self, key: str, *, output: Any = None, emit: Emit | None = None) -> StepwiseChat:
        """One turn of this chat for an engine, which performs each step where and when it likes. `key` names the turn: what was
        done under it is not done again."""
        from segue.chat.stepwise import StepwiseChat  # noqa: PLC0415 - only engines need it

        return StepwiseChat(self._session, key, output, emit)

    def blocking(self) -> BlockingChat[OutputT_co]:
        """The same chat for programs without an event loop."""
        from segue.chat.blocking import BlockingChat  # noqa: PLC0415 - it knows this module

        return BlockingChat(self)

    async def _idle(self, what: str, *, wakes: bool = True) -> ChatSession:
        """The open session without a turn: one that was cancelled is waited for, any other is not disturbed. `wakes`: with the
        right to write, if it was released while the turn waits."""
        await self._session.open()
        if self._turn is not None and self._turn.ending:
            await self._turn.stop()
        if self._turn is not None:
            raise UsageError(
                f"A turn is running: cannot {what} now.",
                code="turn_in_flight",
                hint="Wait for its end, or cancel it first.",
            )
        session = self._session.require_open()
        if wakes:
            await session.journal.wake()
        return session

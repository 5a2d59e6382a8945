"""The chat for programs without an event loop: the same chat, driven from a loop in a thread of its own.

with Chat("anthropic/claude-sonnet-4-6").blocking() as chat:
    print(chat.send("Hello!"))
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, final, overload

from segue.events import Finish

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from concurrent.futures import Future

    from typing_extensions import TypeVar as DefaultTypeVar

    from segue.chat.attachments import Content
    from segue.chat.chat import Chat
    from segue.chat.compaction.compact import Strategy
    from segue.chat.turn import Answer, EventStream
    from segue.chat.turn_settings import TurnOptions
    from segue.conversation.options import Options
    from segue.events import ChatEvent, Compaction, Switch
    from segue.routing.router import Model
    from segue.tools.definition import Tool

    OutputT_co = DefaultTypeVar("OutputT_co", default=None, covariant=True)
else:
    OutputT_co = TypeVar("OutputT_co", covariant=True)

T = TypeVar("T")


@final
class BlockingChat(Generic[OutputT_co]):
    """A chat whose methods wait. Ctrl-C cancels the turn that runs, and is raised once the turn has ended."""

    def __init__(self, chat: Chat[OutputT_co], loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.chat = chat
        """The chat itself, to look at. It runs in the other thread."""
        self._loop = asyncio.new_event_loop() if loop is None else loop
        self._streams: set[Future[None]] = set()
        self._thread: threading.Thread | None = None
        if loop is None:
            self._thread = threading.Thread(target=self._loop.run_forever, name="segue-chat", daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Begin or resume the session. `with` does it, too."""
        self._wait(self.chat.open())

    def close(self) -> None:
        """Cancel what runs, release the session, and end the thread."""
        if self._loop.is_closed():
            return
        self._wait(self.chat.close())
        for running in tuple(self._streams):
            self._wait_for_end(running)
        if self._thread is not None:
            self._wait(self._loop.shutdown_asyncgens())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    @overload
    def send(
        self, *content: Content, output: None = None, raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[OutputT_co]: ...
    @overload
    def send(
        self, *content: Content, output: type[T], raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[T]: ...
    @overload
    def send(
        self, *content: Content, output: dict[str, Any], raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[Any]: ...
    def send(
        self, *content: Content, output: Any = None, raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[Any]:
        """Send a message and wait for the end of the turn. Raises why it failed; the error has the `answer` so far.

        `output`: the type that the answer must have, or a JSON Schema; its value is `answer.output`. `raises=False`: return
        the answer of a failed turn too, with its `error`. What else is given holds for this turn only.
        """
        return self._wait(self.chat.send(*content, output=output, raises=raises, **turn))

    def stream(
        self, *content: Content, output: Any = None, **turn: Unpack[TurnOptions]
    ) -> Iterator[ChatEvent]:
        """The events of the turn while it runs. Whoever stops iterating cancels it."""
        return self._events(self.chat.stream(*content, output=output, **turn))

    @overload
    def resume(
        self, *, output: None = None, raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[OutputT_co]: ...
    @overload
    def resume(self, *, output: type[T], raises: bool = True, **turn: Unpack[TurnOptions]) -> Answer[T]: ...
    @overload
    def resume(
        self, *, output: dict[str, Any], raises: bool = True, **turn: Unpack[TurnOptions]
    ) -> Answer[Any]: ...
    def resume(self, *, output: Any = None, raises: bool = True, **turn: Unpack[TurnOptions]) -> Answer[Any]:
        """Resume the last turn where it stopped: by a crash, an error, a limit, or because it was cancelled. Calls that ran are not
        run again.
        """
        return self._wait(self.chat.resume(output=output, raises=raises, **turn))

    def stream_resumed(self, *, output: Any = None, **turn: Unpack[TurnOptions]) -> Iterator[ChatEvent]:
        """`resume` with the events of the turn while it runs."""
        return self._events(self.chat.stream_resumed(output=output, **turn))

    @property
    def answer(self) -> Answer[Any] | None:
        """Of the last turn."""
        return self.chat.answer

    def _events(self, stream: EventStream) -> Iterator[ChatEvent]:
        events: SimpleQueue[ChatEvent | None] = SimpleQueue()

        async def forward() -> None:
            try:
                async with aclosing(stream) as received:
                    async for event in received:
                        events.put(event)
            finally:
                events.put(None)

        running = asyncio.run_coroutine_threadsafe(forward(), self._loop)
        self._streams.add(running)
        running.add_done_callback(self._streams.discard)
        finished = False
        try:
            while (event := events.get()) is not None:
                finished = type(event) is Finish
                yield event
        finally:
            if not finished:
                self.cancel()
            self._wait_for_end(running)
        running.result()

    def cancel(self) -> None:
        """Stop the turn that runs, from any thread."""
        with suppress(RuntimeError):  # closed: then nothing runs
            self._loop.call_soon_threadsafe(self.chat.cancel)

    def switch(self, model: Model) -> Switch | None:
        """Let another model answer from the next turn on; None while a turn runs, which ends with the model that it has."""
        return self._wait(self.chat.switch(model))

    def undo(self) -> None:
        """Take the last turn back. What its tools did to the world stays done."""
        self._wait(self.chat.undo())

    def redo(self) -> None:
        """Take back what `undo` took back."""
        self._wait(self.chat.redo())

    def fork(self, *, session: str = "") -> BlockingChat[OutputT_co]:
        """Another chat in the same thread: close it before this one."""
        return BlockingChat(self._wait(self.chat.fork(session=session)), self._loop)

    def change(self, *, system: str | None = None, options: Options | None = None) -> None:
        """Another system prompt or other options, from the next turn on."""
        self._wait(self.chat.change(system=system, options=options))

    def equip(self, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        """Other tools than until now, from the next turn on."""
        self._wait(self.chat.equip(tools))

    def approve(self, call_id: str, *, by: str, allow: bool = True, why: str = "") -> None:
        """Approve or refuse a call that waits for it; `by` is who decided. `resume` continues when all are answered."""
        self._wait(self.chat.approve(call_id, by=by, allow=allow, why=why))

    def wait_for_approvals(self, *, every: float = 1.0) -> None:
        """Until somebody, in whichever process, has answered for each call that waits. `resume` continues the turn then."""
        self._wait(self.chat.wait_for_approvals(every=every))

    def rename(self, title: str) -> None:
        """Another title of the session, for people."""
        self._wait(self.chat.rename(title))

    def compact(self, strategy: Strategy | None = None) -> Compaction | None:
        """Make the conversation shorter now; None if nothing can be dropped."""
        return self._wait(self.chat.compact(strategy))

    def export(self) -> bytes:
        """The conversation as a JSON document that `segue` and its tools read, including what was compacted."""
        return self.chat.export()

    def view(self, model: str = "") -> bytes:
        """The request that a model would get now, as it would be sent: by default the one that answers next."""
        return self.chat.view(model)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except KeyboardInterrupt:
            self.cancel()
            self._wait_for_end(running)
            raise

    def _wait_for_end(self, running: Future[Any]) -> None:
        """Of what was cancelled; its outcome does not matter here."""
        with suppress(Exception):
            running.result()

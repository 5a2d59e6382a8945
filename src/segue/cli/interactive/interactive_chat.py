"""An interactive chat: the open chat, the screen, the keyboard, and how a turn is run and interrupted."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from segue.cli.attachments import with_attachments
from segue.cli.interactive.key_watch import CANCELLED, KeyWatch
from segue.cli.interactive.prompts.prompt_terminal import take_typed
from segue.cli.interactive.prompts.questions import (
    OUTCOMES,
    QuestionView,
    field_prompt,
    question_about,
    question_about_blocked,
    question_of_server,
)
from segue.cli.interactive.views.turn_view import TurnScene, TurnView, show_error
from segue.conversation.blocks import Text
from segue.errors import SegueError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prompt_toolkit.input import Input

    from segue.chat.chat import Chat
    from segue.chat.turn import EventStream
    from segue.cli.interactive.prompts.questions import Question
    from segue.cli.interactive.views.screen import Screen
    from segue.cli.runtime import Runtime
    from segue.conversation.blocks import ToolCall
    from segue.events import Decision
    from segue.tools.definition import Tool
    from segue.tools.mcp.questions import FieldValue, QuestionField, ServerQuestion
    from segue.tools.sandbox.refusals import Blocked

TICK_SECONDS: Final = 0.1
TWICE_SECONDS: Final = 2.0
"""A second Ctrl-C within this time leaves the chat."""
STOP_SECONDS: Final = 2.0
"""How long a cancelled question waits for the turn to stop."""
_ANSWERS: Final[dict[str, Decision]] = {"y": "once", "a": "always", "n": "no"}


class InteractiveChat:
    """The state that the input loop, the slash commands and the turns share."""

    def __init__(self, chat: Chat, runtime: Runtime, screen: Screen, source: Input) -> None:
        self.chat = chat
        self.runtime = runtime
        self.screen = screen
        self.source = source
        self.show_reasoning = False
        self.last_turn: list[str] = []
        """Reasoning, arguments and outputs of the last turn, for the pager."""
        self.forked_cost = 0.0
        """Dollars that the sessions have cost of which this one is a copy; their journals count them, not this one's."""
        self.context_tokens: int | None = None
        """Tokens of the conversation at the last answer; None if unknown."""
        self.leaving = False
        self.can_retry = False
        """The last turn failed; an empty line tries it again."""
        self.queue: list[str] = []
        """Lines that were typed while a turn ran."""
        self.unsent = ""
        """The beginning of the next input line: typed while a turn ran, or a prompt to edit."""
        self.command_outputs: list[str] = []
        """Of `!command`: sent with the next message."""
        self._keys: KeyWatch | None = None
        self._view: TurnView | None = None
        self._interrupted_at = float("-inf")
        self._asking = asyncio.Lock()
        self._wanted: asyncio.Future[str] | None = None
        """The next line answers a server; None if it is for the chat."""
        self._meanwhile: set[asyncio.Task[None]] = set()

    async def run_turn(self, prompt: str) -> None:
        """Send a prompt and show the turn until its end."""
        try:
            blocks = with_attachments(prompt, self.runtime.directory)
        except SegueError as error:
            self.show_error(error)
            return
        outputs, self.command_outputs = self.command_outputs, []
        self.screen.gap()
        try:
            await self.runtime.remember_tools(self.chat)
            await self._show_turn(self.chat.stream(*map(Text, outputs), *blocks, options=self.runtime.given))
        except SegueError as error:
            self.show_error(error)

    async def retry_turn(self) -> None:
        """Send again what failed."""
        self.screen.gap()
        try:
            await self._show_turn(self.chat.stream_resumed())
        except SegueError as error:
            self.show_error(error)

    async def _show_turn(self, events: EventStream) -> None:
        self.can_retry = False
        async with self.watched("waiting") as view:
            async for event in events:
                view.show(event)
        self._remember(view)

    def _remember(self, view: TurnView) -> None:
        """What the pager and the status line show of the last turn."""
        self.can_retry = view.failed
        self.context_tokens = view.context_tokens or self.context_tokens
        thoughts = [f"  {line}" for line in view.reasoning.strip().splitlines()]
        self.last_turn = [*(["reasoning", *thoughts, ""] if thoughts else []), *view.whole]

    def _scene(self) -> TurnScene:
        runtime, model = self.runtime, self.chat.model
        return TurnScene(
            model=model,
            workspace=runtime.workspace,
            most_attempts=runtime.retry.attempts if runtime.retry else 0,
            ready=tuple(name for name in runtime.configured() if not model.startswith(f"{name}/")),
            conversation=lambda: self.chat.conversation,
        )

    @asynccontextmanager
    async def watched(self, doing: str) -> AsyncIterator[TurnView]:
        """Show progress while the block runs; Esc or Ctrl-C interrupt it."""
        view = self._view = TurnView(
            self.screen, self._scene(), doing=doing, show_reasoning=self.show_reasoning
        )
        keys = self._keys = KeyWatch(
            self.source,
            on_interrupt=lambda by_ctrl_c: self.interrupt(by_ctrl_c=by_ctrl_c),
            on_line=self._typed_line,
            on_typed=view.type,
            on_reveal=self._reveal,
            begun=self.unsent,
        )
        view.typed = self.unsent
        ticking = asyncio.create_task(self._tick(view))
        try:
            with keys.watching():
                yield view
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking
            self.screen.end_text()
            self.screen.live(())
            self.unsent, self._keys, self._view = keys.left_over, None, None

    async def ask(self, call: ToolCall, tool: Tool) -> Decision:
        """Ask whether a call may run: once, always in this session, or not."""
        return await self._ask(call, question_about(call, tool, self.runtime.workspace))

    async def ask_grant(self, call: ToolCall, blocked: Blocked) -> Decision:
        """Ask whether a command may have what the sandbox kept from it. Whoever wants no questions gets none."""
        if self.runtime.approval.mode == "yolo":
            return "no"
        return await self._ask(call, question_about_blocked(call, blocked))

    async def _ask(self, call: ToolCall, question: Question) -> Decision:
        async with self._asking:
            keys, view = self._keys, self._view
            if keys is None or view is None:
                return "no"
            shown = QuestionView(self.screen, question, keys)
            answer = await self._answer_to(shown, view)
            view.decide(call.id, OUTCOMES[answer])
            shown.finish(answer)
            if answer == CANCELLED:
                self.interrupt(by_ctrl_c=False)
                await asyncio.sleep(STOP_SECONDS)  # the turn ends meanwhile, and this with it
                return "no"
            return _ANSWERS[answer]

    async def _answer_to(self, shown: QuestionView, view: TurnView) -> str:
        view.question = shown
        try:
            return await shown.answer()
        finally:
            view.question = None
            self.screen.live(())

    async def answer(self, question: ServerQuestion) -> dict[str, FieldValue] | None:
        """Ask what an MCP server wants to know; None if the user declines."""
        async with self._asking:
            keys, view = self._keys, self._view
            if keys is None or view is None:
                return None
            shown = QuestionView(self.screen, question_of_server(question), keys)
            if (answer := await self._answer_to(shown, view)) == CANCELLED:
                self.interrupt(by_ctrl_c=False)
            if answer != "y":
                return None
            values: dict[str, FieldValue] = {}
            for field in question.fields:
                value = await self._typed_value(field)
                if value is not None:
                    values[field.name] = value
            return values

    async def _typed_value(self, field: QuestionField) -> FieldValue | None:
        """What the user types for a field; None if it stays empty."""
        while True:
            self.screen.end_text()
            self.screen.line(field_prompt(field), "yellow")
            self._wanted = asyncio.get_running_loop().create_future()
            try:
                line = await self._wanted
            finally:
                self._wanted = None
            if line.strip() == "-" and not field.required:
                return None
            if (value := field.read(line)) is not None:
                return value

    async def replace_chat(self, chat: Chat) -> None:
        """Open another chat and close this one."""
        await chat.open()
        await self.chat.close()
        self.chat, self.forked_cost = chat, 0.0

    @property
    def can_pick(self) -> bool:
        """Whether the user can pick with the arrow keys: no turn runs, and the terminal can be repainted."""
        return self._keys is None and not self.screen.plain and sys.stdin.isatty()

    def keep_typed_ahead(self) -> None:
        """What was typed before a prompt appears is for the input line."""
        *lines, begun = take_typed(self.source).split("\n")
        self.queue += [line for line in lines if line.strip()]
        self.unsent += begun

    def show_error(self, error: SegueError) -> None:
        show_error(self.screen, error)

    def interrupt(self, *, by_ctrl_c: bool) -> None:
        """Cancel the turn; Ctrl-C twice within a moment: leave, too."""
        now = time.monotonic()
        if by_ctrl_c and now - self._interrupted_at < TWICE_SECONDS:
            self.leaving = True
        if by_ctrl_c:
            self._interrupted_at = now
        if self.chat.cancel() and self._view is not None:
            self._view.interrupted = True

    def _reveal(self) -> None:
        self.show_reasoning = not self.show_reasoning
        if self._view is not None:
            self._view.reveal()

    def _typed_line(self, line: str) -> None:
        """Some commands work while a turn runs; everything else is queued."""
        from segue.cli.interactive.commands.table import run_command, works_meanwhile  # noqa: PLC0415 - circular

        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(line)
            return
        if works_meanwhile(line):
            task = asyncio.get_running_loop().create_task(run_command(self, line))
            self._meanwhile.add(task)
            task.add_done_callback(self._meanwhile.discard)
            return
        self.queue.append(line)
        self.screen.paragraph(f"  queued until this turn ends: {line}", "dim", 2)

    async def _tick(self, view: TurnView) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            view.tick()

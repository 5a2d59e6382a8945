"""What is asked at the keyboard: may a call run, may a session's tools be used again, what does an MCP server want to know. And
how a question is shown: the whole of it on the screen, or in a pager first."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.cli.display.call_text import argument_text, change_lines, change_of
from segue.cli.display.text_width import width_of, wrapped
from segue.cli.interactive.key_watch import CANCELLED, Choice, KeyWatch
from segue.cli.interactive.pager import show_in_pager
from segue.text.terminal_text import revealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prompt_toolkit.input import Input

    from segue.cli.display.terminal import Colours
    from segue.cli.interactive.views.screen import Screen
    from segue.conversation.blocks import ToolCall
    from segue.tools.definition import Effect, Tool
    from segue.tools.mcp.questions import QuestionField, ServerQuestion
    from segue.tools.sandbox.refusals import Blocked


_PORTION: Final = 4_000
_FINAL: Final[frozenset[Effect]] = frozenset({"run", "other"})
"""A command, or a tool of which nobody knows what it does, cannot be taken back."""


@final
class Question(Struct, frozen=True, kw_only=True):
    """A sentence, below it everything that would be agreed to, and what can be answered."""

    title: str
    body: tuple[tuple[str, str], ...]
    """Lines and their colours, as long as they are."""
    note: str = ""
    """What to know before answering."""
    answers: tuple[Choice, ...]
    """They count once the whole body was on the screen."""
    refusal: Choice
    view: str = "show all of it"
    """What the key for the pager is called."""
    escape: str = "no, and stop"
    """What Esc means."""

    def lines(self, width: int, paint: Colours) -> list[str]:
        """The body on a screen of this width: nothing is cut off."""
        lines = [
            f"    {paint(colour, part) if colour else part}"
            for text, colour in self.body
            for portion in _portions(text)
            for part in wrapped(portion, width - 5, 2)
        ]
        return [*lines, "", f"    {paint('dim', self.note)}"] if self.note else lines


def question_about(call: ToolCall, tool: Tool, workspace: Path) -> Question:
    """The whole command, the whole change of a file, or the arguments of any other call."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    command, url, path = (_text(arguments.get(name)) for name in ("command", "url", "path"))
    name = revealed(call.name)
    title, always, note = f"Call {name}?", f"every call of {name}", ""
    if tool.effect == "run" and command:
        others = {key: value for key, value in arguments.items() if key != "command"}
        body = (*_plain_lines(command), *_argument_lines(others))
        title, always = "Run this command?", "always this exact command"
        if tool.sandbox is not None and tool.sandbox.confines:
            note = tool.sandbox.summary()
        elif tool.sandbox is not None:
            title, note = "Run this command outside of a sandbox?", tool.sandbox.summary()
    elif tool.effect == "edit" and path and (change := change_of(arguments, workspace / path)) is not None:
        body = change_lines(change)
        verb = "Write the new file" if change.is_new else "Edit"
        title = f"{verb} {revealed(path)}?  +{change.added} −{change.removed} lines"
    elif tool.effect == "fetch" and url:
        body = _plain_lines(url)
        title, always = "Fetch this address?", "always this host"
    else:
        body = _argument_lines(arguments) if arguments else _plain_lines(call.raw)
    return Question(
        title=title,
        body=body,
        note=note,
        answers=(Choice("y", "once", enter=tool.effect in _FINAL), Choice("a", always, enter=True)),
        refusal=Choice("n", "no"),
        view=f"show all {len(body)} lines",
    )


def question_about_blocked(call: ToolCall, blocked: Blocked) -> Question:
    """Whether a command that the sandbox stopped may run again with what it wanted."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    home = f"{Path.home()}/"
    wanted = tuple((f"- {revealed(line.replace(home, '~/'))}", "yellow") for line in blocked.lines())
    return Question(
        title="The sandbox stopped this command. Allow it, and run it again?",
        body=(*_plain_lines(_text(arguments.get("command"))), ("", ""), ("It wanted to", ""), *wanted),
        note="What it has done so far stays done.",
        answers=(
            Choice("y", "allow once", enter=True),
            Choice("a", "allow for this session", enter=True),
        ),
        refusal=Choice("n", "no"),
    )


def question_about_session(parts: Iterable[str]) -> Question:
    """Whether a resumed session may use again what could do harm, one line each."""
    return Question(
        title="Use again what this session had?",
        body=tuple((f"- {revealed(part)}", "") for part in parts),
        note="You are asked once for this session in this folder, and again if a file changes.",
        answers=(Choice("y", "use it", enter=True),),
        refusal=Choice("n", "no, without it"),
        escape="no",
    )


def question_of_server(question: ServerQuestion) -> Question:
    """Who asks is named, and what is typed goes to that server and nowhere else."""
    fields = [f"- {revealed(field.title)}" for field in question.fields]
    page = [f"open this page yourself: {revealed(question.url)}"] if question.url else []
    texts = [*(revealed(line) for line in question.message.split("\n")), *fields, *page]
    return Question(
        title=f'The MCP server "{revealed(question.server)}" asks you:',
        body=tuple((text, "") for text in texts),
        note="Your answer goes to this server. It is not segue that asks: give it no password or key.",
        answers=(Choice("y", "done" if question.url else "answer", enter=True),),
        refusal=Choice("n", "decline"),
    )


def field_prompt(field: QuestionField) -> str:
    """What to type for one field of a server's question."""
    match field.kind:
        case "choice":
            options = ", ".join(f"{number} {revealed(c)}" for number, c in enumerate(field.choices, 1))
            how = f"one of: {options}"
        case "boolean":
            how = "yes or no"
        case "number" | "integer":
            how = "a number"
        case "text":
            how = "text"
    skip = "" if field.required else "; - leaves it empty"
    return f"  {revealed(field.title)} ({how}{skip}). Type it, then enter:"


def _portions(line: str) -> list[str]:
    """Wrapping takes longer than linear time, so an endless line is wrapped in portions."""
    return [line[start : start + _PORTION] for start in range(0, len(line), _PORTION)] or [""]


def _argument_lines(arguments: dict[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(
        line for name, value in arguments.items() for line in _plain_lines(argument_text(name, value))
    )


def _plain_lines(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((revealed(line).expandtabs(4), "") for line in text.split("\n"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


ROWS_AROUND: Final = 9
"""Rows of the screen that a question needs for more than what it is about."""
OUTCOMES: Final = {
    "y": "you allowed it",
    "a": "you allowed it always",
    "n": "you refused it",
    CANCELLED: "you refused it and stopped the turn",
}


@final
class QuestionView:
    """One question until its answer. What is longer than the screen can be allowed only after it was shown whole."""

    def __init__(self, screen: Screen, question: Question, keys: KeyWatch) -> None:
        self._screen = screen
        self._question = question
        self._keys = keys
        self._fits = screen.plain or len(self._title()) + len(self._body()) <= screen.height - ROWS_AROUND
        self._seen = self._fits

    async def answer(self) -> str:
        """The key that answers; `v` shows the whole question first."""
        while (answer := await self._keys.ask(self._choices(), self.paint)) == "v":
            await show_in_pager(self._screen, self._whole(), self._keys.released())
            self._seen = True
        return answer

    def _choices(self) -> list[Choice]:
        """Nothing can be allowed that was not on the screen."""
        refusal, view = self._question.refusal, Choice("v", self._question.view)
        if not self._seen:
            return [view, refusal]
        return [*self._question.answers, refusal, *([] if self._fits else [view])]

    def paint(self) -> None:
        """Bring the question to the screen."""
        self._screen.end_text()
        if self._screen.plain:
            for line in (*self._whole(), *self._choice_lines()):
                self._screen.line(line)
        else:
            self._screen.live(self.lines())

    def lines(self) -> list[str]:
        """The live lines of the question."""
        middle = ["", *self._body(), ""] if self._fits else []
        return ["", *self._title(), *middle, *self._choice_lines()]

    def _whole(self) -> list[str]:
        """Title and body, for the pager."""
        return [*self._title(), "", *self._body(), ""]

    def finish(self, answer: str) -> None:
        """A plain terminal keeps the question, and gets the answer. Elsewhere the line of the call has it."""
        if self._screen.plain:
            self._screen.line(f"  {OUTCOMES[answer]}", "dim")

    def _title(self) -> list[str]:
        paint = self._screen.paint
        first, *others = (
            paint("bold", part) for part in wrapped(self._question.title, self._screen.width - 3)
        )
        return [f"{paint('yellow', '?')} {first}", *(f"  {part}" for part in others)]

    def _body(self) -> list[str]:
        return self._question.lines(self._screen.width, self._screen.paint)

    def _choice_lines(self) -> list[str]:
        """The keys; as many rows as it takes, broken between two keys."""
        paint, question = self._screen.paint, self._keys.question
        chosen = question.chosen if question is not None else None
        if chosen is not None:
            confirm = " · enter confirms, backspace takes it back" if chosen.enter else ""
            return [f"  {paint('bold', f'{chosen.key} {chosen.label}')}{paint('dim', confirm)}"]
        if self._keys.left_over:
            hint = "Your line is not empty: enter queues it, ctrl-u clears it. Then answer:"
            return [f"  {paint('yellow', self._screen.shortened(hint, 2))}", *self._key_rows("dim")]
        return self._key_rows("" if self._keys.listens or self._screen.plain else "dim")

    def _key_rows(self, colour: str) -> list[str]:
        keys = [*((choice.key, choice.label) for choice in self._choices()), ("esc", self._question.escape)]
        rows: list[str] = []
        row, width = "", 0
        for key, label in keys:
            part = f"{key} {label}"
            if row and width + len(part) + 3 > self._screen.width - 3:
                rows.append(row)
                row, width = "", 0
            shown = (
                self._screen.paint(colour, part) if colour else f"{self._screen.paint('bold', key)} {label}"
            )
            row, width = (f"{row}   {shown}" if row else f"  {shown}"), width + width_of(part) + 3
        return [*rows, row]


TICK_SECONDS: Final = 0.1


@final
class ConsentPrompt:
    """Asks at the terminal while no turn runs. What is typed beside the answer is kept."""

    def __init__(self, screen: Screen, source: Input) -> None:
        self._screen = screen
        self._source = source
        self.typed_lines: list[str] = []
        self.begun = ""

    async def __call__(self, parts: Sequence[str]) -> bool:
        keys = KeyWatch(self._source, on_line=self.typed_lines.append, begun=self.begun)
        shown = QuestionView(self._screen, question_about_session(parts), keys)
        with keys.watching(), self._repainted(shown):
            answer = await shown.answer()
        self._screen.live(())
        self.begun = keys.left_over
        return answer == "y"

    @contextmanager
    def _repainted(self, shown: QuestionView) -> Iterator[None]:
        """The keys are lit when they count."""

        async def repaint() -> None:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                if not self._screen.plain:
                    self._screen.live(shown.lines())

        ticking = asyncio.ensure_future(repaint())
        try:
            yield
        finally:
            ticking.cancel()

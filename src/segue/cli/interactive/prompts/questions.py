"""What is asked at the keyboard: may a call run, may a session's tools be used again, what does an MCP server want to know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.cli.display.call_text import argument_text
from segue.cli.display.file_changes import change_lines, change_of
from segue.cli.display.text_width import wrapped
from segue.cli.interactive.prompts.key_question import Choice
from segue.text.terminal_text import revealed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.cli.display.terminal import Colours
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

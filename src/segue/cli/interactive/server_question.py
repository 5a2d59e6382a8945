"""A question of an MCP server: who asks is named, and what is typed goes to that server and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.cli.display.text_width import wrapped
from segue.cli.interactive.key_question import Choice
from segue.terminal_text import revealed
from segue.tools.mcp.questions import ServerQuestion

if TYPE_CHECKING:
    from segue.cli.display.terminal import Colours
    from segue.tools.mcp.questions import QuestionField


@final
class ServerForm(Struct, frozen=True):
    """The question as it is shown before anything is typed."""

    question: ServerQuestion

    @property
    def title(self) -> str:
        return f'The MCP server "{revealed(self.question.server)}" asks you:'

    @property
    def escape(self) -> str:
        return "no, and stop"

    def lines(self, width: int, paint: Colours) -> list[str]:
        fields = [f"- {revealed(field.title)}" for field in self.question.fields]
        page = [f"open this page yourself: {revealed(self.question.url)}"] if self.question.url else []
        texts = [*(revealed(line) for line in self.question.message.split("\n")), *fields, *page]
        note = "Your answer goes to this server. It is not segue that asks: give it no password or key."
        body = [part for text in texts for part in wrapped(text, width - 5, 2)]
        return [f"    {line}" for line in body] + ["", f"    {paint('dim', note)}"]

    def choices(self, *, seen: bool) -> list[Choice]:
        shows = Choice("v", "show all of it")
        answers = [Choice("y", "done" if self.question.url else "answer", enter=True)] if seen else []
        return [*answers, Choice("n", "decline"), shows]


def field_prompt(field: QuestionField) -> str:
    """What to type for one field."""
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

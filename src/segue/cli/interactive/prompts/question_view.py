"""Shows a question, such as whether a call may run: the whole of it on the screen, or in a pager first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from segue.cli.display.text_width import width_of, wrapped
from segue.cli.interactive.pager import show_in_pager
from segue.cli.interactive.prompts.key_question import CANCELLED, Choice

if TYPE_CHECKING:
    from segue.cli.interactive.key_watch import KeyWatch
    from segue.cli.interactive.prompts.questions import Question
    from segue.cli.interactive.views.screen import Screen

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

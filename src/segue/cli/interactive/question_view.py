"""Shows a question, such as whether a call may run: the whole of it on the screen, or in a pager first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, final

from segue.cli.display.text_width import width_of, wrapped
from segue.cli.interactive.approval_prompt import ROWS_AROUND
from segue.cli.interactive.key_question import CANCELLED

if TYPE_CHECKING:
    from segue.cli.display.terminal import Colours
    from segue.cli.interactive.key_question import Choice
    from segue.cli.interactive.key_watch import KeyWatch
    from segue.cli.interactive.screen import Screen

OUTCOMES: Final = {
    "y": "you allowed it",
    "a": "you allowed it always",
    "n": "you refused it",
    CANCELLED: "you refused it and stopped the turn",
}


class ShownQuestion(Protocol):
    """What is asked, and what can be answered."""

    @property
    def title(self) -> str: ...

    @property
    def escape(self) -> str:
        """What Esc means."""
        ...

    def lines(self, width: int, paint: Colours) -> list[str]: ...

    def choices(self, *, seen: bool) -> list[Choice]: ...


@final
class QuestionView:
    """One question until its answer. What is longer than the screen can be allowed only after it was shown whole."""

    def __init__(self, screen: Screen, question: ShownQuestion, keys: KeyWatch) -> None:
        self._screen = screen
        self._question = question
        self._keys = keys
        self._fits = screen.plain or len(self._title()) + len(self._body()) <= screen.height - ROWS_AROUND
        self.seen = self._fits

    def choices(self) -> list[Choice]:
        choices = self._question.choices(seen=self.seen)
        return [choice for choice in choices if choice.key != "v"] if self._fits else choices

    def paint(self) -> None:
        """Bring the question to the screen."""
        self._screen.end_text()
        if self._screen.plain:
            for line in (*self.whole(), *self._choice_lines()):
                self._screen.line(line)
        else:
            self._screen.live(self.lines())

    def lines(self) -> list[str]:
        """The live lines of the question."""
        middle = ["", *self._body(), ""] if self._fits else []
        return ["", *self._title(), *middle, *self._choice_lines()]

    def whole(self) -> list[str]:
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
        keys = [*((choice.key, choice.label) for choice in self.choices()), ("esc", self._question.escape)]
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

"""The question, before a resumed session begins, whether its tools and approvals may be used again."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.cli.display.text_width import wrapped
from segue.cli.interactive.key_question import Choice
from segue.cli.interactive.key_watch import KeyWatch
from segue.cli.interactive.pager import show_in_pager
from segue.cli.interactive.question_view import QuestionView
from segue.terminal_text import revealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prompt_toolkit.input import Input

    from segue.cli.display.terminal import Colours
    from segue.cli.interactive.screen import Screen


TICK_SECONDS: Final = 0.1


@final
class ConsentQuestion(Struct, frozen=True):
    """Everything that would be agreed to, one line each."""

    parts: tuple[str, ...]

    @property
    def title(self) -> str:
        return "Use again what this session had?"

    @property
    def escape(self) -> str:
        return "no"

    def lines(self, width: int, paint: Colours) -> list[str]:
        note = "You are asked once for this session in this folder, and again if a file changes."
        body = [part for text in self.parts for part in wrapped(f"- {revealed(text)}", width - 5, 2)]
        return [*(f"    {line}" for line in body), "", f"    {paint('dim', note)}"]

    def choices(self, *, seen: bool) -> list[Choice]:
        agrees = [Choice("y", "use it", enter=True)] if seen else []
        return [*agrees, Choice("n", "no, without it"), Choice("v", "show all of it")]


@final
class ConsentPrompt:
    """Asks at the terminal while no turn runs. What is typed beside the answer is kept."""

    def __init__(self, screen: Screen, source: Input) -> None:
        self._screen = screen
        self._source = source
        self.typed_lines: list[str] = []
        self.begun = ""

    async def __call__(self, parts: Sequence[str]) -> bool:
        keys = KeyWatch(
            self._source,
            on_interrupt=lambda _by_ctrl_c: None,
            on_line=self.typed_lines.append,
            on_typed=lambda _typed: None,
            on_reveal=lambda: None,
            begun=self.begun,
        )
        shown = QuestionView(self._screen, ConsentQuestion(tuple(parts)), keys)
        with keys.watching(), self._repainted(shown):
            while (answer := await keys.ask(shown.choices(), shown.paint)) == "v":
                await show_in_pager(self._screen, shown.whole(), keys.released())
                shown.seen = True
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

"""The question, before a resumed session begins, whether its tools and approvals may be used again."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

from segue.cli.interactive.key_watch import KeyWatch
from segue.cli.interactive.prompts.question_view import QuestionView
from segue.cli.interactive.prompts.questions import question_about_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prompt_toolkit.input import Input

    from segue.cli.interactive.views.screen import Screen

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

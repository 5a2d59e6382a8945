"""The keyboard while a turn runs: Esc and Ctrl-C interrupt, text becomes the next line, a question takes a key."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from prompt_toolkit.keys import Keys

from segue.cli.interactive.prompts.key_question import PAUSE_SECONDS, KeyQuestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding.key_processor import KeyPress

    from segue.cli.interactive.prompts.key_question import Choice

ESCAPE_SECONDS = 0.1
"""How long to wait after an Esc: arrow keys begin with one too."""


@final
class KeyWatch:
    """Reads keys and calls back."""

    def __init__(
        self,
        source: Input,
        *,
        on_line: Callable[[str], None],
        on_interrupt: Callable[[bool], None] = lambda _by_ctrl_c: None,
        on_typed: Callable[[str], None] = lambda _typed: None,
        on_reveal: Callable[[], None] = lambda: None,
        begun: str = "",
    ) -> None:
        """`on_interrupt` is called with whether it was Ctrl-C."""
        self._source = source
        self._on_interrupt = on_interrupt
        self._on_line = on_line
        self._on_typed = on_typed
        self._on_reveal = on_reveal
        self._typed = begun
        self.question: KeyQuestion | None = None
        """The question on the screen; None if there is none."""
        self._pressed_at = float("-inf")
        self._flushing: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read the keyboard until the block ends."""
        with self._source.raw_mode(), self._source.attach(self._ready):
            try:
                yield
            finally:
                for timer in (self._flushing, self._settling):
                    if timer is not None:
                        timer.cancel()

    @contextmanager
    def released(self) -> Iterator[None]:
        """The keyboard belongs to another program until the block ends."""
        with self._source.detach(), self._source.cooked_mode():
            yield

    async def ask(self, choices: Sequence[Choice], paint: Callable[[], None]) -> str:
        """The key of the choice; `CANCELLED` for Esc and Ctrl-C. `paint` brings the question to the screen."""
        loop = asyncio.get_running_loop()
        self._ready()  # what was typed until now is text, also if nobody has read it yet
        question = self.question = KeyQuestion(choices, loop.create_future())
        try:
            paint()
            question.painted(loop.time())
            return await question.answer
        finally:
            self.question = None

    @property
    def listens(self) -> bool:
        """Whether a key would answer the question now."""
        question, now = self.question, asyncio.get_running_loop().time()
        return question is not None and not self._typed and question.accepts(now, self._pressed_at)

    def _ready(self) -> None:
        self._take(self._source.read_keys())
        if self._flushing is not None:
            self._flushing.cancel()
        loop = asyncio.get_running_loop()
        self._flushing = loop.call_later(ESCAPE_SECONDS, lambda: self._take(self._source.flush_keys()))

    def _take(self, presses: list[KeyPress]) -> None:
        # Several keys at once were pasted, or typed before anybody read: no answer.
        single = len(presses) == 1
        for number, press in enumerate(presses):
            # An Esc that came together with another key is that key with Alt.
            alone = press.key is Keys.Escape and all(later.key is Keys.Escape for later in presses[number:])
            if press.key is Keys.Escape and not alone:
                continue
            if alone or press.key is Keys.ControlC:
                self._interrupt(by_ctrl_c=press.key is Keys.ControlC)
            elif not (single and self._answers(press)):
                if self.question is not None and (begun := self.question.take_back()):
                    self._type(self._typed + begun)
                self._edit(press, with_alt=number > 0 and presses[number - 1].key is Keys.Escape)
        if presses:
            self._pressed_at = asyncio.get_running_loop().time()
            self._on_typed(self._typed)

    def _interrupt(self, *, by_ctrl_c: bool) -> None:
        if self.question is not None:
            self.question.cancel()
        else:
            self._on_interrupt(by_ctrl_c)

    def _answers(self, press: KeyPress) -> bool:
        """Whether the key was for the question."""
        question, loop = self.question, asyncio.get_running_loop()
        if question is None or self._typed or press.key is Keys.BracketedPaste:
            return False
        if not question.press(press.data, loop.time(), self._pressed_at):
            return False
        if self._settling is not None:
            self._settling.cancel()
        self._settling = loop.call_later(PAUSE_SECONDS, question.settle)
        return True

    def _edit(self, press: KeyPress, *, with_alt: bool) -> None:
        if press.key is Keys.ControlM and not with_alt:
            self._enter()
        elif press.key in (Keys.ControlM, Keys.ControlJ):
            self._type(self._typed + "\n")
        elif press.key is Keys.ControlO:
            self._on_reveal()
        elif press.key in (Keys.ControlH, Keys.Backspace):
            self._type(self._typed[:-1])
        elif press.key is Keys.ControlU:
            self._type("")
        elif press.key is Keys.BracketedPaste or len(str(press.key)) == 1:
            self._type(self._typed + press.data.replace("\r\n", "\n").replace("\r", "\n"))

    def _enter(self) -> None:
        if self._typed.endswith("\\"):
            self._type(self._typed[:-1] + "\n")
            return
        line = self._typed
        self._type("")
        if line.strip():
            self._on_line(line)

    def _type(self, typed: str) -> None:
        self._typed = typed
        self._on_typed(typed)

    @property
    def left_over(self) -> str:
        """Text without Enter: it goes into the next input line."""
        return self._typed

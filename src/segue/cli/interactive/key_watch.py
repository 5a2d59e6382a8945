"""The keyboard while a turn runs: Esc and Ctrl-C interrupt, text becomes the next line, a question takes a key.

A key answers a question only if the question was on the screen before, nobody was typing, and the input line is empty. Every
other key is text for the input line. What cannot be taken back needs Enter too.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding.key_processor import KeyPress


READING_SECONDS: Final = 0.4
"""After the question was painted: keys that were on their way are not meant for it."""
TYPING_SECONDS: Final = 1.0
"""After the last key: whoever is typing has not read the question yet."""
PAUSE_SECONDS: Final = 0.4
"""After a key that needs no Enter: one that begins a word is not an answer."""
CANCELLED: Final = "cancelled"
"""The answer of Esc and Ctrl-C."""


@final
class Choice(Struct, frozen=True):
    """One possible answer."""

    key: str
    label: str
    enter: bool = False
    """Whether it must be confirmed with Enter."""


@final
class KeyQuestion:
    """The state of one question. Times are seconds of the clock of the event loop."""

    def __init__(self, choices: Sequence[Choice], answer: asyncio.Future[str]) -> None:
        self.choices = tuple(choices)
        self.answer = answer
        self.chosen: Choice | None = None
        """The choice that waits for Enter or for a pause."""
        self._painted_at = float("inf")

    def painted(self, now: float) -> None:
        self._painted_at = now

    def accepts(self, now: float, last_key: float) -> bool:
        """Whether a key that arrives now may be an answer."""
        return now - self._painted_at >= READING_SECONDS and now - last_key >= TYPING_SECONDS

    def press(self, key: str, now: float, last_key: float) -> bool:
        """Take a single key; False if it is text for the input line."""
        if self.answer.done():
            return False
        if self.chosen is not None:
            return self._confirm(key)
        choice = next((choice for choice in self.choices if choice.key == key.lower()), None)
        if choice is None or not self.accepts(now, last_key):
            return False
        self.chosen = choice
        return True

    def settle(self) -> None:
        """No key followed for a while."""
        if self.chosen is not None and not self.chosen.enter:
            self._give(self.chosen.key)

    def take_back(self) -> str:
        """The key that was chosen, if it turns out to be the beginning of a text."""
        taken, self.chosen = self.chosen, None
        return "" if taken is None else taken.key

    def cancel(self) -> None:
        self._give(CANCELLED)

    def _confirm(self, key: str) -> bool:
        if key == "\r" and self.chosen is not None:
            self._give(self.chosen.key)
            return True
        if key in ("\x08", "\x7f"):
            self.chosen = None
            return True
        return False

    def _give(self, answer: str) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


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

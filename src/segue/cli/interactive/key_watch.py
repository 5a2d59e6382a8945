"""The keyboard while a turn runs: Esc and Ctrl-C interrupt, text becomes the next line, a question takes one key."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding.key_processor import KeyPress

ESCAPE_SECONDS = 0.1
"""How long to wait after an Esc: arrow keys begin with one too."""


@final
class KeyWatch:
    """Reads keys and calls back."""

    def __init__(
        self,
        source: Input,
        *,
        on_interrupt: Callable[[], None],
        on_line: Callable[[str], None],
        on_typed: Callable[[str], None],
        on_reveal: Callable[[], None],
        begun: str = "",
    ) -> None:
        self._source = source
        self._on_interrupt = on_interrupt
        self._on_line = on_line
        self._on_typed = on_typed
        self._on_reveal = on_reveal
        self._typed = begun
        self._question: asyncio.Future[str] | None = None
        self._flushing: asyncio.TimerHandle | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read the keyboard until the block ends."""
        with self._source.raw_mode(), self._source.attach(self._ready):
            try:
                yield
            finally:
                if self._flushing is not None:
                    self._flushing.cancel()

    async def ask(self) -> str:
        """The next key, for a question; "" for Esc and Ctrl-C."""
        self._question = asyncio.get_running_loop().create_future()
        try:
            return await self._question
        finally:
            self._question = None

    def _ready(self) -> None:
        self._take(self._source.read_keys())
        if self._flushing is not None:
            self._flushing.cancel()
        loop = asyncio.get_running_loop()
        self._flushing = loop.call_later(ESCAPE_SECONDS, lambda: self._take(self._source.flush_keys()))

    def _take(self, presses: list[KeyPress]) -> None:
        for number, press in enumerate(presses):
            # An Esc that came together with another key is that key with Alt.
            alone = press.key is Keys.Escape and all(later.key is Keys.Escape for later in presses[number:])
            if press.key is Keys.Escape and not alone:
                continue
            if self._question is not None and not self._question.done():
                self._question.set_result("" if alone or press.key is Keys.ControlC else press.data)
                if press.key is Keys.ControlC:
                    self._on_interrupt()
            elif alone or press.key is Keys.ControlC:
                self._on_interrupt()
            else:
                self._edit(press, with_alt=number > 0 and presses[number - 1].key is Keys.Escape)

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

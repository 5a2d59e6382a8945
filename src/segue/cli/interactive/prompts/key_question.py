"""A question that is answered with a key: which keys count, and when.

A key counts only if the question was on the screen before, nobody was typing, and the input line is empty. Every other
key is text for the input line. What cannot be taken back needs Enter too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

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
